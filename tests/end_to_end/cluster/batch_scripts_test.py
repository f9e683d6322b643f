"""The batch scripts of scripts/ for PBS and LSF, on nodes that are this machine, and all of them for a shell.

There is no such scheduler here: the script is started as it would be, on the first node and with the variables and files that
PBS and LSF set, and their way to the other nodes (ssh, blaunch) is a stand-in.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import named_nodes
from support import HANG_GUARD, EndToEndTest, main, program

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "scripts")
TRAINER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "helpers", "counting_trainer.py")
NODES = ("a", "b", "c")
SLOTS = 2
RANKS = SLOTS * len(NODES)
PREEMPTED = 75
WHO = 'echo "rank $RANK of $WORLD_SIZE, local $LOCAL_RANK on $(hostname)"'


class Shell(unittest.TestCase):
    def test_the_shell_understands_them(self):
        for name in ("slurm.sbatch", "pbs.sh", "lsf.sh"):
            path = os.path.join(SCRIPTS, name)
            subprocess.run(["bash", "-n", path], check=True)
            if shutil.which("shellcheck") is None:
                self.skipTest("shellcheck is not installed (Debian package shellcheck)")
            done = subprocess.run(["shellcheck", path], capture_output=True, text=True, timeout=HANG_GUARD, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, ""))


class Gpus(EndToEndTest):
    """The program's line of every script and manifest, on a node of its own, with GPUs that somebody has masked."""

    TRAIN = """import os
seen = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
print(os.environ["LOCAL_RANK"], seen[int(os.environ["LOCAL_RANK"])], len(seen))
"""

    def test_each_worker_finds_its_own_by_local_rank(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        with open(os.path.join(folder, "train.py"), "w", encoding="ascii") as file:
            file.write(self.TRAIN)
        with open(os.path.join(folder, "srun"), "w", encoding="ascii") as file:
            file.write('#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nexec "$@"\n')
        os.chmod(os.path.join(folder, "srun"), 0o755)
        with open(os.path.join(SCRIPTS, "slurm.sbatch"), encoding="utf-8") as file:
            words = re.search(r"^#   sbatch .*slurm\.sbatch (.*)", file.read(), re.MULTILINE)[1].split()
        lines = [[os.path.join(SCRIPTS, "slurm.sbatch"), *words], [os.path.join(SCRIPTS, "pbs.sh")], [os.path.join(SCRIPTS, "lsf.sh")]]
        for name in ("k8s-indexed-job.yaml", "k8s-jobset.yaml"):
            with open(os.path.join(SCRIPTS, name), encoding="utf-8") as file:
                args = re.search(r"^ +args:\n((?: +- .*\n)+)", file.read(), re.MULTILINE)[1]
            lines.append(["ddprun", *(word for word in re.findall(r"- (\S+)", args) if not word.startswith("--nnodes"))])
        for count in (2, 8):
            variables = {"PATH": f"{folder}:{os.path.dirname(program('ddprun'))}:{self.environment['PATH']}", "PBS_O_WORKDIR": folder,
                         "DDPRUN_SCHEDULER": "none", "DDPRUN_NPROC_PER_NODE": "gpu",
                         "CUDA_VISIBLE_DEVICES": ",".join(str(8 + gpu) for gpu in range(count))}
            for line in lines:
                done = subprocess.run(line, env=self.environment | variables, cwd=folder, capture_output=True, text=True,
                                      timeout=HANG_GUARD, check=False)
                self.assertEqual((done.returncode, sorted(done.stdout.splitlines())),
                                 (0, [f"{gpu} {8 + gpu} {count}" for gpu in range(count)]), f"{line}: {done.stderr}")


class Allocation(EndToEndTest):
    def setUp(self):
        why = named_nodes.missing()
        if why:
            self.skipTest(why)
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.nodes = named_nodes.NamedNodes(self.folder, NODES)
        self.hosts = os.path.join(self.folder, "slots")
        with open(self.hosts, "w", encoding="ascii") as file:
            file.write("".join(f"{name}\n" * SLOTS for name in NODES))
        os.symlink(self.nodes.remote_shell, os.path.join(self.folder, self.shell))
        self.environment["PATH"] = f"{self.folder}:{os.path.dirname(program('ddprun'))}:{self.environment['PATH']}"

    def submit(self, *words):
        return self.launch(NODES[0], os.path.join(SCRIPTS, self.script), *words, name=self.nodes.enter, env=self.variables())


class Cases:
    def test_one_job_on_all_nodes(self):
        job = self.submit("sh", "-c", WHO)
        self.assertEqual(job.wait(), 0, job.err())
        found = re.findall(r"^rank (\d) of (\d), local (\d) on (\w)$", job.out(), re.MULTILINE)
        self.assertEqual(sorted(found), [(str(rank), str(RANKS), str(rank % SLOTS), NODES[rank // SLOTS]) for rank in range(RANKS)],
                         job.out() + job.err())

    def test_the_exit_code_is_the_workers(self):
        job = self.submit("sh", "-c", "[ $RANK = 3 ] && exit 7; sleep 600")
        self.assertEqual(job.wait(), 7, job.err())
        self.assertEqual(len(re.findall(r"first failure: rank 3 \(local rank 1\) on node 1 \(b\)", job.err())), 1, job.err())

    def test_what_the_batch_system_ends_has_saved(self):
        for turn in (1, 2):
            job = self.submit("python3", TRAINER, self.folder, "1000")
            job.wait_for_line(f"^rank . of {RANKS} begins at {turn - 1} as ", count=RANKS)
            job.send(signal.SIGTERM)
            self.assertEqual(job.wait(), PREEMPTED, job.err())
            self.assertEqual(len(re.findall(f"has saved {turn}$", job.out(), re.MULTILINE)), RANKS, job.out())


class Pbs(Allocation, Cases):
    script = "pbs.sh"
    shell = "ssh"

    def variables(self):
        return {"PBS_JOBID": f"{os.getpid()}.server", "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_NODEFILE": self.hosts,
                "PBS_O_WORKDIR": self.folder}


class Lsf(Allocation, Cases):
    script = "lsf.sh"
    shell = "blaunch"

    def variables(self):
        return {"LSB_JOBID": str(os.getpid()), "LSB_DJOB_HOSTFILE": self.hosts, "LSB_HOSTS": " ".join(NODES),
                "LSB_MCPU_HOSTS": " ".join(f"{name} {SLOTS}" for name in NODES), "LSB_DJOB_NUMPROC": str(RANKS)}


if __name__ == "__main__":
    main()
