"""The manifests of scripts/ for Kubernetes: what ddprun makes of the environment that a pod of them has.

The environment is made of the manifest, as Kubernetes and JobSet make it: names, index, domain and variables of a pod. That the
manifests are ones that Kubernetes takes `scripts/manifests.sh` sees.
"""

import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import named_nodes
from support import EndToEndTest, main, program

try:
    import yaml
except ImportError:
    yaml = None

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "scripts")
DOMAIN = "team.svc.cluster.local"
WHO = 'echo "rank $RANK of $WORLD_SIZE on $(hostname)"'


class Manifest:
    """One job of pods: `job` is an indexed Job's spec, `name` the Job's, `subdomain` that of its pods."""

    def __init__(self, name, job, subdomain):
        self.name = name
        self.job = job
        self.subdomain = subdomain
        self.pod = job["template"]["spec"]
        (self.container,) = self.pod["containers"]

    def host_name(self, index):
        return f"{self.name}-{index}"

    def full_name(self, index):
        return f"{self.host_name(index)}.{self.subdomain}.{DOMAIN}"

    def environment(self, index):
        """Those that kubelet and the Job's controller set, and those of the manifest that have a value."""
        told = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", "JOB_COMPLETION_INDEX": str(index)}
        for variable in self.container.get("env", ()):
            if "value" in variable:
                told[variable["name"]] = variable["value"]
            elif not variable["valueFrom"]["secretKeyRef"]["optional"]:
                raise AssertionError(f"{variable['name']} needs a secret")
        return told

    def hosts(self):
        """The lines of /etc/hosts; the pods are this machine."""
        return "".join(f"127.0.0.1\t{self.full_name(index)}\t{self.host_name(index)}\n" for index in range(self.job["completions"]))


def documents(file):
    with open(os.path.join(SCRIPTS, file), encoding="utf-8") as text:
        return list(yaml.safe_load_all(text))


def of_indexed_job():
    _, job = documents("k8s-indexed-job.yaml")
    return Manifest(job["metadata"]["name"], job["spec"], job["spec"]["template"]["spec"]["subdomain"])


def of_job_set():
    (job_set,) = documents("k8s-jobset.yaml")
    (replicated,) = job_set["spec"]["replicatedJobs"]
    assert replicated["replicas"] == 1
    name = job_set["metadata"]["name"]
    # JobSet's names, and its subdomain where none is said.
    return Manifest(f"{name}-{replicated['name']}-0", replicated["template"]["spec"], name)


class Pods(EndToEndTest):
    def setUp(self):
        if yaml is None:
            self.skipTest("Python has no yaml (Debian package python3-yaml)")
        why = named_nodes.missing()
        if why:
            self.skipTest(why)
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.manifests = (of_indexed_job(), of_job_set())

    def enter(self, manifest):
        return named_nodes.NamedNodes(tempfile.mkdtemp(dir=self.folder), (), manifest.hosts()).enter

    def start(self, manifest, index, enter, args):
        return self.launch(manifest.host_name(index), program("ddprun"), *args, name=enter, env=manifest.environment(index))

    def test_each_pod_knows_its_place(self):
        for manifest in self.manifests:
            enter = self.enter(manifest)
            self.assertEqual(manifest.container["command"], ["ddprun"])
            ports = set()
            for index in range(manifest.job["completions"]):
                job = self.start(manifest, index, enter, ("--explain", "--json", *manifest.container["args"]))
                self.assertEqual(job.wait(), 0, job.err())
                plan = json.loads(job.out())
                values = {value["name"]: value for value in plan["cluster"]["values"]}
                self.assertEqual({name: (values[name]["value"], values[name]["source"]) for name in ("nodes", "node rank", "master address")},
                                 {"nodes": (str(manifest.job["completions"]), "--nnodes"),
                                  "node rank": (str(index), "JOB_COMPLETION_INDEX"),
                                  "master address": (manifest.full_name(0), "/etc/hosts")})
                self.assertEqual((plan["refused"], plan["cluster"]["situation"]), (None, "one process on each node"))
                ports.add(values["master port"]["value"])
            self.assertEqual(len(ports), 1)

    def test_they_are_one_job(self):
        for manifest in self.manifests:
            enter = self.enter(manifest)
            args = [word for word in manifest.container["args"] if word.startswith("--")]
            # Another run of this test is another job.
            args += [f"--rdzv-id=pods-{os.getpid()}", "--nproc-per-node=1"]
            pods = [self.start(manifest, index, enter, (*args, "sh", "-c", WHO))
                    for index in range(manifest.job["completions"])]
            self.assertEqual([pod.wait() for pod in pods], [0] * len(pods), [pod.err() for pod in pods])
            for index, pod in enumerate(pods):
                self.assertEqual(pod.out(), f"rank {index} of {len(pods)} on {manifest.host_name(index)}")

    def test_what_a_manifest_says_twice_is_the_same(self):
        for manifest in self.manifests:
            words = dict(word.split("=") for word in manifest.container["args"] if word.startswith("--"))
            self.assertEqual(words["--nnodes"], str(manifest.job["completions"]))
            self.assertEqual(manifest.job["parallelism"], manifest.job["completions"])
            self.assertEqual(manifest.job["completionMode"], "Indexed")
            self.assertLess(int(words["--grace"]), manifest.pod["terminationGracePeriodSeconds"])
            mounts = {mount["name"]: mount["mountPath"] for mount in manifest.container["volumeMounts"]}
            self.assertEqual(mounts, {volume["name"]: "/dev/shm" for volume in manifest.pod["volumes"]})
            # Rules of exit codes need this, and the container's name.
            self.assertEqual(manifest.pod["restartPolicy"], "Never")
            for rule in manifest.job["podFailurePolicy"]["rules"]:
                self.assertEqual(rule.get("onExitCodes", {}).get("containerName", "ddprun"), manifest.container["name"])
        service, job = documents("k8s-indexed-job.yaml")
        self.assertEqual(service["metadata"]["name"], job["spec"]["template"]["spec"]["subdomain"])
        self.assertEqual(service["spec"]["selector"], {"batch.kubernetes.io/job-name": job["metadata"]["name"]})

    def test_exit_codes_that_the_manifests_name(self):
        """They are those that ddprun documents."""
        with open(os.path.join(SCRIPTS, "..", "apps", "ddprun", "manual", "failures.md"), encoding="utf-8") as page:
            documented = page.read()
        for manifest in self.manifests:
            for rule in manifest.job["podFailurePolicy"]["rules"]:
                for code in rule.get("onExitCodes", {}).get("values", ()):
                    self.assertTrue(code > 128 or re.search(rf"^\| {code} \|", documented, re.MULTILINE), code)


if __name__ == "__main__":
    main()
