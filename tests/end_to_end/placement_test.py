"""Where workers run: CPUs, GPUs and adapters, on this machine and on others that sysfs is made to tell of."""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import support
from support import EndToEndTest, worker

SHOW = ("sh", "-c", 'echo "rank $RANK: $(sed -n s/Cpus_allowed_list:.//p /proc/self/status) $OMP_NUM_THREADS"')


def cpu_list(text):
    cpus = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


class Binding(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.environment = {name: value for name, value in self.environment.items()
                            if name not in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")}
        self.cpus = os.sched_getaffinity(0)

    def shown(self, *flags, **options):
        """What SHOW printed, by rank: the CPUs and OMP_NUM_THREADS."""
        code, out, err = self.run_job("--gpu-bind=none", *flags, *SHOW, **options)
        self.assertEqual(code, 0, err)
        lines = dict(re.findall(r"^rank (\d+): (.*)$", out, re.MULTILINE))
        return [(cpu_list(lines[str(rank)].split()[0]), int(lines[str(rank)].split()[1])) for rank in range(len(lines))], err

    def test_cores_are_equal_parts_of_what_is_allowed(self):
        workers = min(len(self.cpus), 8)
        places, err = self.shown("--bind=cores", "--nproc-per-node", workers)
        self.assertEqual(err, "")
        self.assertEqual(set().union(*(cpus for cpus, _ in places)), self.cpus)
        self.assertEqual(sum(len(cpus) for cpus, _ in places), len(self.cpus), places)
        for cpus, threads in places:
            self.assertLessEqual(threads, len(cpus))

    def test_fewer_cpus_than_workers_are_shared(self):
        one = min(self.cpus)
        places, err = self.shown("--bind", "cores", "--nproc-per-node=3", prefix=("taskset", "-c", str(one)))
        self.assertEqual((places, err), ([({one}, 1)] * 3, ""))
        code, _, err = self.run_job("--gpu-bind=none", "--numa-binding=exclusive", "--nproc-per-node=3", "true",
                                    prefix=("taskset", "-c", str(one)))
        self.assertEqual((code, len(err.splitlines())), (2, 1))
        self.assertRegex(err, rf"--numa-binding exclusive: 3 .* only 1 cores .*\(CPUs {one}\)")

    def test_every_binding_stays_within_what_is_allowed(self):
        for flag in ("--bind=numa", "--bind=none", "--numa-binding=node", "--numa_binding=socket",
                     "--numa-binding=exclusive", "--numa-binding=core-complex"):
            places, _ = self.shown(flag)
            self.assertTrue(places[0][0] and places[0][0] <= self.cpus, f"{flag}: {places}")

    def test_the_map_is_printed_with_and_without_starting(self):
        workers = min(len(self.cpus), 2)
        flags = ("--gpu-bind=none", "--bind=cores", "--nproc-per-node", workers)
        code, out, err = self.run_job("--dry-run", *flags, "--master-port", 1, *SHOW)
        self.assertEqual((code, err), (0, ""))
        lines = out.splitlines()
        self.assertEqual(len(lines), workers)
        for rank, line in enumerate(lines):
            self.assertRegex(line, rf"^rank {rank} on node 0 \(.+\): CPUs? [\d,-]+, NUMA nodes? [\d,-]+.*, "
                                   r"OMP_NUM_THREADS=\d+; runs sh -c ")
        place = re.search(r"CPUs? .*?(?=, OMP)", lines[0])[0]
        _, _, err = self.run_job("-v", *flags, *SHOW)
        self.assertIn(f"ddprun: rank 0 of {workers} on node 0 ({os.uname().nodename}): {place}\n", err)
        code, out, _ = self.run_job("--dry-run", "--nnodes=2", "--node-rank=1", "--master-addr=127.0.0.1", "true")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^local rank 0 on node 1 \(.+\): any of CPUs? ")

    def test_contradictions(self):
        for flags, variables, words in (
                (("--bind=cores", "--numa-binding=node"), {}, ("--bind", "--numa-binding")),
                (("--bind=socket",), {}, ("--bind socket", "cores, numa or none")),
                (("--numa-binding=cores",), {}, ("--numa-binding cores", "core-complex")),
                ((), {"HIP_VISIBLE_DEVICES": "2,3", "ROCR_VISIBLE_DEVICES": "2,3"},
                 ("HIP_VISIBLE_DEVICES=2,3", "ROCR_VISIBLE_DEVICES=2,3", "--gpu-bind none"))):
            code, out, err = self.run_job(*flags, "echo", "started", env=variables)
            if variables and os.path.exists("/dev/nvidia0"):
                continue  # AMD's variables mean nothing there
            self.assertEqual((code, out, len(err.splitlines())), (2, "", 1), err)
            for word in words:
                self.assertIn(word, err)

    def test_masks_of_other_vendors(self):
        if os.path.exists("/dev/nvidia0"):
            self.skipTest("skipped: this machine has GPUs of NVIDIA, so masks of others mean nothing")
        for variable in ("HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"):
            for flag, masks in (("--gpu-bind=single", ("4", "6")), ("--gpu-bind=auto", ("4,6", "4,6"))):
                code, out, err = self.run_job("--nproc-per-node=gpu", flag, "sh", "-c", f'echo "$RANK {variable}=${variable}"',
                                              env={variable: "4,6"})
                self.assertEqual((code, err), (0, ""))
                self.assertEqual(sorted(out.splitlines()), [f"{rank} {variable}={mask}" for rank, mask in enumerate(masks)])


class Clothes(EndToEndTest):
    """Programs that count their GPUs by LOCAL_RANK, however they are started, see all; binaries see their own."""

    PROGRAM = """#!/usr/bin/env python3
import os
print(os.environ["RANK"], os.environ["CUDA_VISIBLE_DEVICES"], os.environ["LOCAL_RANK"], os.environ["DDPRUN_DEVICE"],
      os.environ.get("PYTHONUNBUFFERED"), os.environ.get("PYTHONFAULTHANDLER"))
"""

    def setUp(self):
        super().setUp()
        for name in ("PYTHONUNBUFFERED", "PYTHONFAULTHANDLER"):
            self.environment.pop(name, None)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment.update(PATH=f"{self.folder}:{self.environment['PATH']}", PYTHONPATH=self.folder)
        self.write("dev.py", self.PROGRAM)
        self.write("tool", self.PROGRAM)
        self.write("run.sh", f"#!/bin/sh\nexec python3 {self.folder}/dev.py\n")
        # As they are installed, as a script and as a binary; and one that nobody knows.
        self.write("uv", '#!/bin/bash\n[[ $1 == run ]] && shift\nexec "$@"\n')
        for name in ("numactl", "site-run"):
            shutil.copy("/usr/bin/env", self.path(name))
        os.symlink(os.path.realpath(sys.executable), self.path("trainer"))
        os.symlink(worker()[0], self.path("native"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(self.path(name), 0o755)

    @staticmethod
    def mask(count):
        return ",".join(str(8 + gpu) for gpu in range(count))

    def lines(self, count, *words):
        code, out, err = self.run_job("--nproc-per-node=gpu", *words, env={"CUDA_VISIBLE_DEVICES": self.mask(count)})
        self.assertEqual((code, err), (0, ""), words)
        return sorted(out.splitlines())

    def assert_all(self, count, words, unbuffered, handler):
        self.assertEqual(self.lines(count, *words), [f"{rank} {self.mask(count)} {rank} {rank} {unbuffered} {handler}"
                                                     for rank in range(count)], words)

    def test_python_in_any_clothes_sees_all(self):
        script, python = self.path("dev.py"), ("python3", self.path("dev.py"))
        for count in (2, 8):
            for words in ((script,), ("-m", "dev"), ("--run-path", script), ("--python", self.path("tool"))):
                self.assert_all(count, words, None, 1)
            for words in (python, ("/usr/bin/python3", script), ("env", *python), ("env", "-u", "X", "A=B", *python),
                          ("/usr/bin/env", "-S", f"A=B python3 {script}"), ("trainer", script), (self.path("tool"),),
                          ("--no-python", "tool"), ("--program", f"*:python3 {script}")):
                self.assert_all(count, words, 1, 1)
            for words in (("bash", "-c", shlex.join(python)), (self.path("run.sh"),), ("nice", "-n", "1", *python),
                          ("uv", "run", *python), ("numactl", "A=B", self.path("run.sh")), ("site-run", *python)):
                self.assert_all(count, words, None, None)

    def test_a_binary_sees_its_own(self):
        for count in (2, 8):
            out = self.lines(count, "native", "print-env")
            self.assertEqual(sorted(line for line in out if line.startswith("CUDA_VISIBLE_DEVICES=")),
                             sorted(f"CUDA_VISIBLE_DEVICES={8 + gpu}" for gpu in range(count)))
            self.assertEqual(out.count("DDPRUN_DEVICE=0"), count)

    def test_a_users_own_word_counts(self):
        for name in ("PYTHONUNBUFFERED", "PYTHONFAULTHANDLER"):
            self.environment[name] = ""
        self.assertEqual(self.lines(2, "--gpu-bind=single", "python3", self.path("dev.py")), ["0 8 0 0  ", "1 9 1 0  "])

    def test_a_wrong_device_is_explained_by_the_binding_only_where_it_is(self):
        said = "CUDA error: invalid device ordinal"
        native = ("native", "complain", said, "exit", "1")
        python = ("python3", "-c", f"import sys; sys.exit('{said}')")
        for words, hints in ((native, 1), (("--gpu-bind=all", *native), 0), (("--virtual-local-rank", *native), 0), (python, 0),
                             (("--gpu-bind=single", *python), 1)):
            code, _, err = self.run_job("--nproc-per-node=2", *words, env={"CUDA_VISIBLE_DEVICES": "4,5"})
            self.assertEqual((code, len(re.findall("hint: .*run with --gpu-bind all", err))), (1, hints), err)

    def test_the_lines_of_the_manuals(self):
        top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        found = []
        manual = glob.glob(os.path.join(top, "apps", "ddprun", "manual", "*.md"))
        for page in (*manual, "README.md", "apps/ddpctl/README.md", "apps/examples/README.md"):
            with open(os.path.join(top, page), encoding="utf-8") as file:
                blocks = re.findall(r"```sh\n(.*?)```", file.read(), re.DOTALL)
            for line in "".join(blocks).replace("\\\n", " ").splitlines():
                # Up to what ends a command, or a quote around it.
                program = re.search(r"""ddprun (?:\S+ )*?((?:-m|python3|bash|[\w./]+/[a-z_]\w+(?:\.py)?|\w+\.py)\b"""
                                    r"""(?:[^"'&):]|'[^']*'|"[^"]*")*)""", line)
                if program and "doctor" not in line:
                    found.append(program[1])
        for line in ("python3 train.py", "./solver input.nml ", "build/bin/train_digits --data apps/data/digits.csv",
                     "apps/examples/train.py --epochs 2"):
            self.assertIn(line, found)
        self.assertTrue(any(line.startswith("bash -c '") for line in found), found)
        for line in sorted(set(found)):
            for count in (2, 8):
                mask = self.mask(count)
                code, out, err = self.run_job("--dry-run", "--json", "--nproc-per-node=gpu", *shlex.split(line), cwd=top,
                                              env={"CUDA_VISIBLE_DEVICES": mask})
                self.assertEqual((code, err), (0, ""), line)
                for rank, plan in enumerate(json.loads(out)):
                    own = {change["name"]: change["value"] for change in plan["environment"]}
                    seen = own.get("CUDA_VISIBLE_DEVICES", mask).split(",")
                    binary = os.path.basename(plan["command"][0]) in ("train_digits", "ddpbench") and os.path.exists(
                        os.path.join(top, plan["command"][0]))
                    self.assertEqual((len(seen), own["DDPRUN_DEVICE"]), (1, "0") if binary else (count, str(rank)), line)


class Programs(EndToEndTest):
    """Several programs in one job."""

    def lines(self, *arguments):
        code, out, err = self.run_job("--gpu-bind=none", *arguments)
        self.assertEqual((code, err), (0, ""))
        return sorted(out.splitlines())

    def test_programs_behind_colons_have_the_local_ranks_behind(self):
        say = ("sh", "-c", 'echo "$RANK of $WORLD_SIZE $0 $*"')
        self.assertEqual(self.lines("--nproc-per-node=2", *say, "a", ":", ":", "--nproc-per-node", 1, *say, "b", ":",
                                    "--nproc_per_node=1", *say, "c", "x"),
                         ["0 of 4 a :", "1 of 4 a :", "2 of 4 b ", "3 of 4 c x"])

    def test_programs_by_rank(self):
        say = ("sh", "-c", 'echo "$RANK plain"')
        server = "sh -c 'echo $RANK server $0' ${local_rank}"
        self.assertEqual(self.lines("--nproc-per-node=3", f"--program=1:{server}", *say), ["0 plain", "1 server 1", "2 plain"])
        self.assertEqual(self.lines("--nproc-per-node=2", f"--program=1:{server}", "--program", "*:sh -c 'echo $RANK all'"),
                         ["0 all", "1 server 1"])
        for flags, words in ((("--program=1:true",), ("no program given", "--program '*:COMMAND'")),
                             (("--program=1:true", "true"), ("--program '1:true'", "1 worker")),
                             (("--program=1", "true"), ("--program '1'", "RANKS:COMMAND")),
                             (("true", ":", "--nproc-per-node", "x", "true"), (": --nproc-per-node x",)),
                             (("true", ":", "--nproc-per-node", "1"), (": --nproc-per-node 1", "no program"))):
            code, out, err = self.run_job(*flags)
            self.assertEqual((code, out, len(err.splitlines())), (2, "", 1), err)
            for word in words:
                self.assertIn(word, err)


class OtherMachine(EndToEndTest):
    """A machine of two NUMA nodes with a GPU and an adapter on each, of which the one counted first is on node 1."""

    def setUp(self):
        super().setUp()
        self.cpus = sorted(os.sched_getaffinity(0))
        tried = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"skipped: no mount namespaces here: {tried.stderr.strip()}")
        if len(self.cpus) < 2:
            self.skipTest("skipped: two NUMA nodes need two CPUs, and this test may use one")
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        half = len(self.cpus) // 2
        self.nodes = (self.cpus[:half], self.cpus[half:])
        for node, cpus in enumerate(self.nodes):
            self.file(f"devices/system/node/node{node}/cpulist", ",".join(map(str, cpus)))
            for cpu in cpus:
                self.file(f"devices/system/cpu/cpu{cpu}/topology/physical_package_id", node)
                self.file(f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", cpu)
        self.file("devices/system/node/has_memory", "0-1")
        for number, node in ((1, 1), (2, 0)):
            self.device(f"pci0000:{number}0/0000:{number}0:01.0/0000:{number}1:00.0", node)
            self.device(f"pci0000:{number}0/0000:{number}0:01.0/0000:{number}2:00.0", node, f"mlx5_{number}")
            self.file(f"class/kfd/kfd/topology/nodes/{number}/properties",
                      f"cpu_cores_count 0\nsimd_count 304\nlocation_id {number * 0x1000 + 0x100}\ndomain 0\nunique_id {number}\n")

    def file(self, path, text):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(f"{text}\n")

    def device(self, path, node, nic=None):
        self.file(f"devices/{path}/numa_node", node)
        link = f"class/infiniband/{nic}/device" if nic else f"bus/pci/devices/{os.path.basename(path)}"
        os.makedirs(os.path.join(self.folder, os.path.dirname(link)), exist_ok=True)
        os.symlink(os.path.relpath(f"/devices/{path}", "/" + os.path.dirname(link)), os.path.join(self.folder, link))

    def run_there(self, *arguments, **options):
        # A folder /dev with AMD's device file in it, and all that is there otherwise.
        script = f"""set -e
            mkdir -p {self.folder}/new_dev; mount -t tmpfs none {self.folder}/new_dev
            for name in null zero full tty urandom; do
                touch {self.folder}/new_dev/$name; mount --bind /dev/$name {self.folder}/new_dev/$name
            done
            mkdir {self.folder}/new_dev/shm; mount --rbind /dev/shm {self.folder}/new_dev/shm
            ln -s /proc/self/fd {self.folder}/new_dev/fd; touch {self.folder}/new_dev/kfd
            mount --rbind {self.folder}/new_dev /dev; mount --bind {self.folder} /sys
            exec "$0" "$@" """
        return self.run_job(*arguments, prefix=("unshare", "-m", "sh", "-c", script), **options)

    def test_a_worker_is_near_its_gpu(self):
        show = ('echo "$RANK $(sed -n s/Cpus_allowed_list:.//p /proc/self/status) $HIP_VISIBLE_DEVICES $DDPRUN_DEVICE '
                '$DDPRUN_NIC"')
        for flag in ("--bind=numa", "--bind=cores", "--numa-binding=node", "--numa-binding=exclusive",
                     "--numa-binding=core-complex", "--numa-binding=socket"):
            code, out, err = self.run_there(flag, "--gpu-bind=single", "--nproc-per-node=gpu", "sh", "-c", show)
            self.assertEqual((code, err), (0, ""), flag)
            lines = [line.split() for line in sorted(out.splitlines())]
            self.assertEqual([cpu_list(line[1]) for line in lines], [set(self.nodes[1]), set(self.nodes[0])], flag)
            self.assertEqual([line[2:] for line in lines], [["0", "0", "mlx5_1"], ["1", "0", "mlx5_2"]], flag)

    def test_a_mask_moves_workers_and_the_map_says_where(self):
        code, out, err = self.run_there("--dry-run", "--bind=numa", "true", env={"HIP_VISIBLE_DEVICES": "1"})
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"^rank 0 on node 0 \(.+\): CPUs? [\d,-]+, NUMA node 0, GPU 1 \(0000:21:00\.0, NUMA node 0\), "
                              r"NIC mlx5_2, OMP_NUM_THREADS=\d+; runs true$")

    def test_a_mask_behind_another_counts_anew_and_a_launcher_within_reads_it(self):
        show = ("sh", "-c", 'echo "$ROCR_VISIBLE_DEVICES $HIP_VISIBLE_DEVICES $DDPRUN_DEVICE $DDPRUN_NIC"')
        for nested in ((), (support.program("ddprun"),)):
            code, out, err = self.run_there("--gpu-bind=single", "--nproc-per-node=gpu", *nested, *show,
                                            env={"ROCR_VISIBLE_DEVICES": "1,0"})
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(sorted(out.splitlines()), ["1,0 0 0 mlx5_2", "1,0 1 0 mlx5_1"])
        # Nobody has said which, and all are written out all the same.
        for masks, seen in (({"ROCR_VISIBLE_DEVICES": "1,0"}, "1,0 0,1"), ({}, " 0,1")):
            code, out, err = self.run_there("--nproc-per-node=gpu", *show, env=masks)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual([line.rpartition(" ")[0] for line in sorted(out.splitlines())], [f"{seen} 0", f"{seen} 1"])
        _, out, _ = self.run_there("--gpu-bind=none", *show)
        self.assertEqual(out.strip(), "")


if __name__ == "__main__":
    support.main()
