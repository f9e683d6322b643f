"""ddprun under a real Slurm: one job of a step's nodes, one report on srun's screen, nothing left behind."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import slurm_cluster
from support import HANG_GUARD, main, program

WHO = 'echo "rank $RANK of $WORLD_SIZE, local $LOCAL_RANK, at $MASTER_ADDR on $(hostname)"'
USAGE = 2


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = slurm_cluster.missing()
        if why:
            raise unittest.SkipTest(why)
        cls.cluster = slurm_cluster.SlurmCluster()
        cls.addClassCleanup(cls.cluster.end)

    def run_it(self, *words):
        environment = {name: value for name, value in self.cluster.environment.items() if not name.startswith("DDPRUN_")}
        done = subprocess.run([str(word) for word in words], env={**environment, "DDPRUN_AUTH": "off"}, capture_output=True, text=True,
                              timeout=HANG_GUARD, check=False, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr

    def ranks(self, out):
        return sorted(tuple(map(int, found)) for found in re.findall(r"^rank (\d+) of (\d+), local (\d+)", out, re.MULTILINE))

    def test_a_step_is_one_job(self):
        code, out, err = self.run_it("srun", "-N3", program("ddprun"), "--nproc-per-node", 2, "sh", "-c", WHO)
        self.assertEqual(code, 0, err)
        self.assertEqual(self.ranks(out), [(rank, 6, rank % 2) for rank in range(6)])
        self.assertEqual(set(re.findall(r"at (\S+) on", out)), {"n1"})
        said = re.findall(r"^ddprun: 3 nodes by SLURM_STEP_NUM_NODES, this is node 0 by SLURM_NODEID, they meet at n1:", err, re.MULTILINE)
        self.assertEqual(len(said), 1, err)
        self.assertEqual(err.count(" nodes by SLURM_STEP_NUM_NODES"), 1, err)

    def test_doctor_looks_at_the_nodes_of_a_step(self):
        code, out, err = self.run_it("srun", "-N3", program("ddprun"), "doctor", "--json")
        report = json.loads(out)
        self.assertEqual(code, 1 if report["state"] == "problem" else 0, err)
        self.assertEqual([node["host"] for node in report["nodes"]], ["n1", "n2", "n3"])
        ways = sorted((pair["from"], pair["to"], pair["reach"]) for pair in report["pairs"])
        self.assertEqual(ways, [(a, b, "reached") for a in range(3) for b in range(3) if a != b])
        # On one node nothing has to be said about the others.
        code, out, err = self.run_it("srun", "-N1", program("ddprun"), "doctor", "--json")
        self.assertEqual(json.loads(out)["host"], "n1")

    def test_a_step_of_a_part_of_its_job(self):
        script = f"""#!/bin/sh
srun -N2 -w n2,n3 {program("ddprun")} sh -c '{WHO}'
"""
        code, out, err = self.batch(script, "-N3")
        self.assertEqual(code, 0, err)
        self.assertEqual(self.ranks(out), [(0, 2, 0), (1, 2, 0)])
        self.assertEqual(set(re.findall(r"at (\S+) on", out)), {"n2"})

    def batch(self, script, *flags):
        """The job's exit code, and what it has written."""
        with tempfile.TemporaryDirectory() as folder:
            path, output = os.path.join(folder, "job.sh"), os.path.join(folder, "output")
            with open(path, "w", encoding="utf-8") as file:
                file.write(script)
            code, _, err = self.run_it("sbatch", "--wait", "-o", output, *flags, path)
            with open(output, encoding="utf-8") as file:
                text = file.read()
        return code, text, err + text

    def test_a_script_that_forgot_srun_is_refused(self):
        code, _, err = self.batch(f"#!/bin/sh\nexec {program('ddprun')} true\n", "-N3")
        self.assertEqual(code, USAGE, err)
        self.assertRegex(err, r"this is one process in a Slurm allocation of 3 nodes \(SLURM_JOB_NUM_NODES\), .* srun ")

    def test_tasks_that_are_workers_already(self):
        code, _, err = self.run_it("srun", "-N2", "--ntasks-per-node=2", program("ddprun"), "true")
        self.assertEqual(code, USAGE, err)
        self.assertIn("--ntasks-per-node=1", err)
        code, out, err = self.run_it("srun", "-N2", "--ntasks-per-node=2", program("ddprun"), "--adapt", "sh", "-c", WHO)
        self.assertEqual(code, 0, err)
        self.assertEqual(self.ranks(out), [(rank, 4, rank % 2) for rank in range(4)])

    def test_the_report_stands_once(self):
        code, _, err = self.run_it("srun", "-N3", program("ddprun"), "sh", "-c", "[ $RANK = 1 ] && exit 7; sleep 600")
        self.assertEqual(code, 7, err)
        self.assertEqual(len(re.findall(r"first failure: rank 1 \(local rank 0\) on node 1 \(n2\), .* exit code 7", err)), 1, err)

    def left(self, mark):
        """Processes that have this text in their environment."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if mark.encode() in file.read():
                        found.append(pid)
            except OSError:
                pass
        return found

    def test_scancel_leaves_nothing(self):
        mark = f"SLURM_TEST_MARK={os.getpid()}"
        with tempfile.TemporaryDirectory() as folder:
            script, output = os.path.join(folder, "job.sh"), os.path.join(folder, "output")
            with open(script, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\nexec srun env {mark} {program('ddprun')} sh -c 'echo up; setsid sleep 600 & sleep 600'\n")
            job = re.search(r"\d+", self.run_it("sbatch", "-N3", "-o", output, script)[1])[0]

            def ups():
                if not os.path.exists(output):
                    return 0
                with open(output, encoding="utf-8") as file:
                    return file.read().count("up\n")

            self.cluster.await_true(lambda: ups() == 3, "the job's workers")
            self.assertGreater(len(self.left(mark)), 6)
            self.assertEqual(self.run_it("scancel", job)[0], 0)
            self.cluster.await_true(lambda: not self.left(mark), "rid of the job's processes")
            self.cluster.await_true(lambda: self.cluster.states() == ["idle"] * 3, "its nodes back")

    def test_what_ddprun_adds_to_srun(self):
        """Prints the figure; says nothing of a machine's speed."""
        took = {"true": [], "ddprun": []}
        for _ in range(9):
            for name, words in (("true", ("true",)), ("ddprun", (program("ddprun"), "--quiet", "--nproc-per-node", 1, "true"))):
                begin = time.monotonic()
                self.assertEqual(self.run_it("srun", "-N3", *words)[0], 0)
                took[name].append(1e3 * (time.monotonic() - begin))
        medians = {name: sorted(times)[len(times) // 2] for name, times in took.items()}
        print(f"srun -N3 true {medians['true']:.0f} ms, srun -N3 ddprun true {medians['ddprun']:.0f} ms", file=sys.stderr)


if __name__ == "__main__":
    main()
