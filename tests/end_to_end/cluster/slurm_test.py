"""ddprun under a real Slurm: one job of a step's nodes, one report on srun's screen, nothing left behind."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import slurm_cluster
from support import HANG_GUARD, WAITING, main, program

WHO = 'echo "rank $RANK of $WORLD_SIZE, local $LOCAL_RANK, at $MASTER_ADDR on $(hostname)"'
USAGE = 2
# Of Slurm, between its SIGTERM and its SIGKILL: no job here may need it all, on however slow a machine.
LONG_GRACE = "KillWait=60"


def setUpModule():
    why = slurm_cluster.missing()
    if why:
        raise unittest.SkipTest(why)
    SlurmTest.cluster = slurm_cluster.SlurmCluster(more=LONG_GRACE)
    unittest.addModuleCleanup(SlurmTest.cluster.end)


class SlurmTest(unittest.TestCase):
    cluster = None

    def environment(self, **more):
        return {**self.cluster.environment, **more}

    def run_it(self, *words, **more):
        done = subprocess.run([str(word) for word in words], env=self.environment(DDPRUN_AUTH="off", **more), capture_output=True,
                              text=True, timeout=HANG_GUARD, check=False, stdin=subprocess.DEVNULL)
        # But for who is missing, as Launcher.err() leaves it out.
        said = [line for line in done.stderr.splitlines(keepends=True) if not WAITING.match(line.rstrip("\n"))]
        return done.returncode, done.stdout, "".join(said)

    def ranks(self, out):
        return sorted(tuple(map(int, found)) for found in re.findall(r"^rank (\d+) of (\d+), local (\d+)", out, re.MULTILINE))

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

    def lines_of(self, path, line):
        """How often a job has written this line by now."""
        if not os.path.exists(path):
            return 0
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines().count(line)

    def await_nothing_of(self, mark):
        self.cluster.await_true(lambda: not self.left(mark), "rid of the job's processes")
        self.cluster.await_true(lambda: set(self.cluster.states()) == {"idle"}, "its nodes back")

    def signalled(self, number, nodes, text, *flags):
        """The exit code of a ddprun that gets a signal when its workers, whose shell runs `text`, are up, and what it has said. Nothing
        of it is left though its allocation is."""
        mark = f"SLURM_TEST_MARK={os.getpid()}.{int(number)}"
        with tempfile.TemporaryDirectory() as folder:
            output, pid = os.path.join(folder, "output"), os.path.join(folder, "pid")
            words = shlex.join([program("ddprun"), *flags, "--nproc-per-node=1", "sh", "-c", text])
            # The allocation is there until its shell has read a line.
            shell = f"sh -c 'echo $$ >{pid}; exec env {mark} \"$@\"' sh {words}; echo code $?; read line"
            with open(output, "wb") as file:
                job = subprocess.Popen(["salloc", "-Q", f"-N{nodes}", "sh", "-c", shell], stdout=file, stderr=file, stdin=subprocess.PIPE,
                                       env=self.environment())
            self.cluster.await_true(lambda: self.lines_of(output, "up") == nodes, "the job's workers")
            with open(pid, encoding="ascii") as file:
                os.kill(int(file.read()), number)

            def said():
                with open(output, encoding="utf-8") as file:
                    return file.read()

            self.cluster.await_true(lambda: re.search(r"^code \d+$", said(), re.MULTILINE), "the job's exit code")
            self.cluster.await_true(lambda: not self.left(mark), "rid of the job's processes")
            self.assertIsNone(job.poll())
            job.communicate(b"\n", HANG_GUARD)
            self.await_nothing_of(mark)
            return int(re.search(r"^code (\d+)$", said(), re.MULTILINE)[1]), said()

    def scancel_leaves_time(self, nodes):
        """As long as Slurm does (KillWait); then the report comes, too. The ranks that have saved, in order: whom Slurm signals as
        well as ddprun does so again if its second signal comes within its trap."""
        save = 'trap "echo saved $RANK; exit 0" TERM; echo up; while :; do sleep 0.01; done'
        with tempfile.TemporaryDirectory() as folder:
            script, output = os.path.join(folder, "job.sh"), os.path.join(folder, "output")
            with open(script, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\nexec {program('ddprun')} --nproc-per-node 1 sh -c '{save}'\n")
            job = re.search(r"\d+", self.run_it("sbatch", f"-N{nodes}", "-o", output, script)[1])[0]
            self.cluster.await_true(lambda: self.lines_of(output, "up") == nodes, "the job's workers")
            self.assertEqual(self.run_it("scancel", job)[0], 0)
            self.cluster.await_true(lambda: self.lines_of(output, "ddprun:   survivors: 0") == 1, "the job's report")
            # Node 0's report may overtake the last lines of other nodes, which come by steps of their own.
            self.cluster.await_true(lambda: set(self.cluster.states()) == {"idle"}, "its nodes back")
            with open(output, encoding="utf-8") as file:
                text = file.read()
        self.assertNotIn("not shown any more", text)
        return sorted(map(int, re.findall(r"^saved (\d+)$", text, re.MULTILINE)))

    def scancel_leaves_nothing(self, *words):
        """Of a batch script that runs these words and a program of ours."""
        mark = f"SLURM_TEST_MARK={os.getpid()}"
        with tempfile.TemporaryDirectory() as folder:
            script, output = os.path.join(folder, "job.sh"), os.path.join(folder, "output")
            with open(script, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\nexec env {mark} {' '.join(words)} sh -c 'echo up; setsid sleep 600 & sleep 600'\n")
            job = re.search(r"\d+", self.run_it("sbatch", "-N3", "-o", output, script)[1])[0]
            self.cluster.await_true(lambda: self.lines_of(output, "up") == 3, "the job's workers")
            self.assertGreater(len(self.left(mark)), 6)
            self.assertEqual(self.run_it("scancel", job)[0], 0)
            self.await_nothing_of(mark)


class Step(SlurmTest):
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

    def test_doctor_names_the_node_of_a_step_that_does_not_come(self):
        come = '[ "$SLURM_NODEID" = 1 ] || exec "$0" doctor --json --last-call=10'
        code, out, err = self.run_it("srun", "-N3", "sh", "-c", come, program("ddprun"))
        report = json.loads(out)
        self.assertEqual((code, [node["host"] for node in report["nodes"]]), (1, ["n1", "n3"]), err)
        self.assertIn("2 of 3 are there; n2 has not come in time", [one["text"] for one in report["findings"]])

    def test_a_step_of_a_part_of_its_job(self):
        script = f"""#!/bin/sh
srun -N2 -w n2,n3 {program("ddprun")} sh -c '{WHO}'
"""
        code, out, err = self.batch(script, "-N3")
        self.assertEqual(code, 0, err)
        self.assertEqual(self.ranks(out), [(0, 2, 0), (1, 2, 0)])
        self.assertEqual(set(re.findall(r"at (\S+) on", out)), {"n2"})

    def test_more_nodes_than_the_step_has_are_refused(self):
        code, out, err = self.run_it("srun", "-N3", program("ddprun"), "--nnodes=4", "sh", "-c", WHO)
        self.assertEqual((code, out), (USAGE, ""), err)
        self.assertIn("4 nodes by --nnodes are more than 3 by SLURM_STEP_NUM_NODES, which is all that a Slurm step has", err)

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

    def test_scancel_leaves_nothing(self):
        self.scancel_leaves_nothing("srun", program("ddprun"))

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


class Allocation(SlurmTest):
    """One ddprun starts the agents of all nodes by steps of its own."""

    DECIDED = "ddprun: 3 nodes by SLURM_JOB_NODELIST, agents started by srun"

    def test_a_script_without_srun_is_one_job(self):
        code, out, err = self.batch(f"#!/bin/sh\nexec {program('ddprun')} --nproc-per-node 2 sh -c '{WHO}'\n", "-N3")
        self.assertEqual(code, 0, err)
        self.assertEqual(self.ranks(out), [(rank, 6, rank % 2) for rank in range(6)])
        self.assertEqual(sorted(re.findall(r"rank (\d) .* on (\S+)", out)), [(str(rank), f"n{1 + rank // 2}") for rank in range(6)])
        self.assertEqual(set(re.findall(r"at (\S+) on", out)), {"n1"})
        self.assertEqual(out.splitlines().count(self.DECIDED), 1, out)

    def test_a_login_node_runs_none_of_it(self):
        code, out, err = self.run_it("salloc", "-Q", "-N3", program("ddprun"), "--nproc-per-node", 1, "sh", "-c", WHO)
        self.assertEqual(code, 0, err)
        self.assertEqual(sorted(re.findall(r"rank (\d) of 3, .* on (\S+)", out)), [("0", "n1"), ("1", "n2"), ("2", "n3")])
        self.assertEqual(err.splitlines(), [self.DECIDED])

    def test_tasks_are_workers_where_nobody_has_gpus(self):
        code, out, err = self.run_it("salloc", "-Q", "-N3", "--ntasks-per-node=2", program("ddprun"), "sh", "-c", WHO,
                                     CUDA_VISIBLE_DEVICES="")
        self.assertEqual((code, self.ranks(out)), (0, [(rank, 6, rank % 2) for rank in range(6)]), err)

    def test_options_for_the_users_own_steps_are_none_for_the_agents(self):
        theirs = {"SLURM_LABELIO": "1", "SLURM_STDOUTMODE": "none", "SLURM_EXACT": "1", "SLURM_EXPORT_ENV": "NONE"}
        code, out, err = self.run_it("salloc", "-Q", "-N3", "env", *(f"{name}={value}" for name, value in theirs.items()),
                                     program("ddprun"), "--nproc-per-node", 1, "sh", "-c", f"{WHO}; echo exact $SLURM_EXACT")
        self.assertEqual(code, 0, err)
        self.assertEqual((self.ranks(out), out.count("exact 1\n")), ([(rank, 3, 0) for rank in range(3)], 3), out)

    def test_some_of_the_nodes(self):
        code, out, err = self.run_it("salloc", "-Q", "-N3", program("ddprun"), "--exclude", "n2", "--nproc-per-node", 1, "sh", "-c", WHO)
        self.assertEqual((code, sorted(re.findall(r"rank (\d) of 2, .* on (\S+)", out))), (0, [("0", "n1"), ("1", "n3")]), err)
        self.assertIn("ddprun: 2 of 3 nodes by SLURM_JOB_NODELIST, agents started by srun", err)

    def test_as_many_nodes_as_the_allocation_has_may_be_said(self):
        code, out, err = self.run_it("salloc", "-Q", "-N3", program("ddprun"), "--nnodes", 3, "--nproc-per-node", 1, "sh", "-c", WHO)
        self.assertEqual((code, self.ranks(out), err), (0, [(rank, 3, 0) for rank in range(3)], self.DECIDED + "\n"))

    def test_several_components_are_no_job_of_one(self):
        code, out, err = self.run_it("salloc", "-Q", "-N1", ":", "-N2", program("ddprun"), "--nproc-per-node", 1, "sh", "-c", WHO)
        self.assertEqual((code, out), (USAGE, ""), err)
        self.assertIn("a Slurm allocation of 3 nodes (SLURM_JOB_NUM_NODES_HET_GROUP_*)", err)

    def test_hosts_that_the_user_names_by_srun(self):
        code, out, err = self.run_it("salloc", "-Q", "-N3", program("ddprun"), "--rsh", "srun", "--hosts", "n3,n1", "sh", "-c", WHO)
        self.assertEqual((code, sorted(re.findall(r"rank (\d) of 2, .* on (\S+)", out)), err), (0, [("0", "n3"), ("1", "n1")], ""))

    def test_one_node_where_the_user_says_so(self):
        for words in (("--standalone",), ("--nnodes=1",), ("--scheduler=none",)):
            code, out, err = self.run_it("salloc", "-Q", "-N3", program("ddprun"), *words, "--nproc-per-node", 1, "sh", "-c", WHO)
            self.assertEqual((code, self.ranks(out), err), (0, [(0, 1, 0)], ""))

    def test_the_culprit_is_named_once(self):
        code, _, err = self.run_it("salloc", "-Q", "-N3", program("ddprun"), "--nproc-per-node", 1, "sh", "-c", "[ $RANK = 1 ] && exit 7; sleep 600")
        self.assertEqual(code, 7, err)
        self.assertEqual(len(re.findall(r"first failure: rank 1 \(local rank 0\) on node 1 \(n2\), .* exit code 7", err)), 1, err)
        self.assertEqual(err.count("survivors: 0"), 1, err)

    def test_much_output_is_whole_lines(self):
        line = "x" * 3000
        code, out, err = self.run_it("salloc", "-Q", "-N3", program("ddprun"), "--nproc-per-node", 1, "sh", "-c",
                                     f"i=0; while [ $i -lt 300 ]; do echo {line} $i; i=$((i + 1)); done; printf last")
        self.assertEqual(code, 0, err)
        self.assertEqual(len(re.findall(f"{line} \\d+$", out, re.MULTILINE)), 900)
        self.assertEqual(out.count("last"), 3)

    def test_scancel_leaves_nothing(self):
        self.scancel_leaves_nothing(program("ddprun"), "--nproc-per-node", "1")

    def test_scancel_leaves_time_to_save(self):
        self.assertEqual(sorted(set(self.scancel_leaves_time(3))), [0, 1, 2])

    def test_a_signal_to_the_starter_leaves_nothing(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, 137)):
            with self.subTest(signal=number.name):
                ended, _ = self.signalled(number, 3, "echo up; setsid sleep 600 & sleep 600")
                self.assertEqual(ended, code)

    def test_what_it_would_do_is_shown(self):
        code, out, err = self.run_it("salloc", "-Q", "-N3", program("ddprun"), "--dry-run", "--nproc-per-node", 4, "train")
        self.assertEqual((code, err), (0, self.DECIDED + "\n"))
        self.assertEqual(re.findall(r"^node (\d) on (\S+): ddprun .*--nproc-per-node=4 .*-- train$", out, re.MULTILINE),
                         [("0", "n1"), ("1", "n2"), ("2", "n3")])


class LargerAllocation(SlurmTest):
    """Nodes with GPUs, and more of them than one machine reaches itself."""

    @classmethod
    def setUpClass(cls):
        try:
            cls.cluster = slurm_cluster.SlurmCluster(nodes=6, gpus=4, proctrack="pgid", more=LONG_GRACE)
        except PermissionError as error:
            raise unittest.SkipTest(f"no device file can be made here: {error}") from error
        cls.addClassCleanup(cls.cluster.end)

    def test_steps_that_start_steps(self):
        code, out, err = self.run_it("salloc", "-Q", "-N6", program("ddprun"), "--fan-out", 2, "--nproc-per-node", 1, "sh", "-c",
                                     f"{WHO}; echo by $SLURM_SUBMIT_DIR $SLURM_JOB_NUM_NODES")
        self.assertEqual(code, 0, err)
        self.assertEqual(sorted(re.findall(r"rank (\d) of 6, .* on (\S+)", out)), [(str(rank), f"n{rank + 1}") for rank in range(6)])
        # As the user's shell has them, behind whichever step.
        self.assertEqual(out.count(f"by {os.getcwd()} 6\n"), 6, out)

    def test_a_signal_goes_to_all_of_a_tree(self):
        code, said = self.signalled(signal.SIGTERM, 6, 'trap "echo saved; exit 0" TERM; echo up; while :; do sleep 0.01; done', "--fan-out=2")
        self.assertEqual((code, said.count("saved"), said.count("survivors: 0")), (75, 6, 1), said)

    def test_scancel_leaves_time_to_save_where_it_signals_relays_only(self):
        self.assertEqual(self.scancel_leaves_time(6), list(range(6)))

    def test_a_worker_for_each_gpu_however_they_were_asked_for(self):
        for asked, counts in ((("--gpus-per-node=4",), (4, 4)), (("--gres=gpu:3",), (3, 3)), (("--gpus=8",), (4, 4)),
                              (("--ntasks-per-node=2", "--gpus-per-task=2"), (4, 4)), (("--ntasks=3", "--gpus-per-task=1"), (2, 1))):
            with self.subTest(asked=asked):
                code, out, err = self.run_it("salloc", "-Q", "-w", "n1,n2", *asked, program("ddprun"), "--gpu-bind=single", "sh", "-c",
                                             'echo "on $(hostname) $CUDA_VISIBLE_DEVICES"')
                self.assertEqual(code, 0, err)
                self.assertEqual(sorted(out.splitlines()),
                                 sorted(f"on n{1 + node} {gpu}" for node, count in enumerate(counts) for gpu in range(count)))
                self.assertEqual(err, "ddprun: 2 nodes by SLURM_JOB_NODELIST, agents started by srun\n")

    def test_gpus_that_nobody_has_counted_are_refused(self):
        code, _, err = self.run_it("salloc", "-Q", "-w", "n1,n2", "--gpus=5", program("ddprun"), "true")
        self.assertEqual(code, USAGE, err)
        self.assertIn("srun --ntasks-per-node=1 ddprun", err)
        # Slurm gives the first node as many as it has.
        code, _, err = self.run_it("salloc", "-Q", "-w", "n1,n2", "--gpus=4", program("ddprun"), "true")
        self.assertEqual(code, 71, err)
        self.assertRegex(err, r"ddprun: n2: srun exit 1: .*Unable to create step .*--gpus-per-node")


if __name__ == "__main__":
    main()
