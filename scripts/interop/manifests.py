"""Kubernetes' own schemas, strict, over the manifests of scripts/; see manifests.sh.

JobSet's schema comes with JobSet only: of its own fields there is a table here, and the Job in it is checked as a Job.
"""

import copy
import os
import sys

from environment import Environment, Unavailable
from results import Results

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
MANIFESTS = ("k8s-indexed-job.yaml", "k8s-jobset.yaml")
OLDEST = "1.29"  # the first one that has all of it without a switch (backoffLimitPerIndex)
# jobset.x-k8s.io/v1alpha2: where a field holds others of JobSet's own, these; where it holds words, which.
RULE = {"name": str, "action": ("FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"), "targetReplicatedJobs": list,
        "onJobFailureReasons": ("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded",
                                "PodFailurePolicy")}
NETWORK = {"enableDNSHostnames": bool, "subdomain": str, "publishNotReadyAddresses": bool}
JOB_SET = {"apiVersion": ("jobset.x-k8s.io/v1alpha2",), "kind": ("JobSet",), "metadata": {"name": str},
           "spec": {"network": NETWORK, "suspend": bool, "ttlSecondsAfterFinished": int,
                    "failurePolicy": {"maxRestarts": int, "rules": [RULE]},
                    "replicatedJobs": [{"name": str, "groupName": str, "replicas": int, "template": {"metadata": dict, "spec": dict}}]}}


def complaint_by_table(value, allowed, where="JobSet"):
    """Why the value is none of these; empty: it is."""
    if isinstance(allowed, dict):
        if not isinstance(value, dict):
            return f"{where} is no mapping"
        unknown = [name for name in value if name not in allowed]
        if unknown:
            return f"{where} has no field {unknown[0]}"
        found = [complaint_by_table(below, allowed[name], f"{where}.{name}") for name, below in value.items()]
    elif isinstance(allowed, list) and isinstance(value, list):
        found = [complaint_by_table(below, allowed[0], where) for below in value]
    elif isinstance(allowed, tuple):
        found = [f"{where}: {word} is not known" for word in (value if isinstance(value, list) else [value]) if word not in allowed]
    else:
        found = [] if isinstance(allowed, type) and isinstance(value, allowed) else [f"{where} is no {allowed}"]
    return next((text for text in found if text), "")


def complaint_about(document, version):
    from kubernetes_validate import ValidationError, validate

    if document["kind"] == "JobSet":
        complaint = complaint_by_table(document, JOB_SET)
        if complaint:
            return complaint
        (replicated,) = document["spec"]["replicatedJobs"]
        document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": replicated["name"]}, **replicated["template"]}
    try:
        validate(document, version, strict=True)
    except ValidationError as error:
        return str(error).splitlines()[0]
    return ""


def misspelt(document):
    """The document once for each of its fields, with that one's last letter gone. Names that people choose are no fields."""
    paths = []

    def walk(value, path):
        below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for name, inner in below:
            if isinstance(name, str):
                paths.append((*path, name))
            if name not in ("metadata", "selector", "limits"):
                walk(inner, (*path, name))

    walk(document, ())
    for path in paths:
        if path[0] != "spec":
            continue
        changed = copy.deepcopy(document)
        holder = changed
        for name in path[:-1]:
            holder = holder[name]
        holder[path[-1][:-1]] = holder.pop(path[-1])
        yield ".".join(map(str, path)), changed


def cases():
    """A title for each case, and why it fails; empty: it does not."""
    import yaml
    from kubernetes_validate import latest_version

    newest = ".".join(latest_version().split(".")[:2])
    for file in MANIFESTS:
        with open(os.path.join(ROOT, "scripts", file), encoding="utf-8") as text:
            documents = list(yaml.safe_load_all(text))
        for document in documents:
            for version in (OLDEST, newest):
                yield f"{file}: a {document['kind']} of Kubernetes {version}", complaint_about(document, version)
            unseen = [path for path, changed in misspelt(document) if not complaint_about(changed, newest)]
            yield f"{file}: a misspelt field of the {document['kind']} is seen", ", ".join(unseen)


def main():
    results = Results()
    environment = Environment(os.path.join(ROOT, "build", "manifests"))
    if os.path.realpath(sys.prefix) == os.path.realpath(environment.folder):
        for title, complaint in cases():
            results.note(title, complaint)
        return results.close()
    try:
        if not (environment.has("schemas") and environment.runs()):
            environment.begin()
            environment.pip("kubernetes-validate")
            environment.mark("schemas")
    except Unavailable as why:
        for file in MANIFESTS:
            results.skip(file, why)
        results.close()
        return 0
    os.execv(environment.python, [environment.python, "-B", os.path.abspath(__file__)])


if __name__ == "__main__":
    sys.exit(main())
