"""ddprun under Open MPI's mpirun and Hydra's mpiexec on several nodes: one job, or one line that names the way out."""

import contextlib
import os
import re
import shutil
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import named_nodes
from support import EndToEndTest, main, processes_of_job, program

USAGE = 2
NODES = ("a", "b", "c")
WHO = 'echo "rank $RANK of $WORLD_SIZE, local $LOCAL_RANK, at $MASTER_ADDR on $(hostname)"'


class Launchers(EndToEndTest):
    launcher = ""  # a program's own name, since both packages call theirs mpirun
    package = ""
    hangs = False  # at times, when processes end

    def setUp(self):
        why = named_nodes.missing()
        if why:
            self.skipTest(why)
        if shutil.which(self.launcher) is None:
            self.skipTest(f"{self.launcher} is not installed (Debian package {self.package})")
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.remote_shell = named_nodes.NamedNodes(folder.name, NODES).remote_shell
        self.environment |= {"DDPRUN_AUTH": "off", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def layout(self, nodes, tasks):
        """The launcher's words for so many tasks on each of these nodes."""
        raise NotImplementedError

    def start(self, nodes, tasks, *words):
        return self.launch(*self.layout(nodes, tasks), program("ddprun"), *words, name=shutil.which(self.launcher))

    def run_on(self, nodes, tasks, *words):
        return self.end_of(lambda: self.start(nodes, tasks, *words))

    def end_of(self, start):
        if not self.hangs:
            job = start()
            return job.wait(), job.out(), job.err()
        for _ in range(2):
            job = start()
            with contextlib.suppress(AssertionError):
                return job.wait(), job.out(), job.err()
            print(f"{self.launcher} has not ended: {job.seen}", flush=True)
        raise AssertionError(f"{self.launcher} does not end")

    def assert_ranks(self, out, nodes, workers):
        found = re.findall(r"^rank (\d+) of (\d+), local (\d+), at \S+ on (\S+)$", out, re.MULTILINE)
        self.assertEqual(sorted((int(rank), int(world), int(local), host) for rank, world, local, host in found),
                         [(node * workers + local, len(nodes) * workers, local, name)
                          for node, name in enumerate(nodes) for local in range(workers)], out)
        self.assertEqual(len(set(re.findall(" at (.*) on ", out))), 1)

    def agent_of(self, task):
        """The pid of a task's agent."""
        for pid in processes_of_job(self.marker):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="ascii") as comm, open(f"/proc/{pid}/environ", "rb") as environ:
                if comm.read() == "ddprun\n" and f"{self.rank_variable}={task}".encode() in environ.read().split(b"\0"):
                    return pid
        raise AssertionError(f"no agent in task {task}")


class Cases:
    """What both do alike."""

    said = ()  # what a user has to say

    def test_one_agent_on_each_node_is_one_job(self):
        code, out, err = self.run_on(NODES, 1, *self.said, "--nproc-per-node=2", "sh", "-c", WHO)
        self.assertEqual(code, 0, err)
        self.assert_ranks(out, NODES, 2)
        self.assertEqual(len(re.findall("^ddprun: 3 nodes by .*, this is node 0 by .*, they meet at ", err, re.MULTILINE)), 1, err)

    def test_a_process_for_each_worker_is_refused_or_becomes_it(self):
        code, out, err = self.run_on(NODES[:2], 2, *self.said, "sh", "-c", WHO)
        self.assertEqual((code, re.findall("^rank", out, re.MULTILINE)), (USAGE, []), err)
        self.assertRegex(err, rf"ddprun: this is task \d of 4 of an .*: start one task on each node \({self.one_per_node}\), "
                              r"or give --adapt to .*, or --standalone")
        code, out, err = self.run_on(NODES[:2], 2, *self.said, "--adapt", "sh", "-c", WHO)
        self.assertEqual(code, 0, err)
        self.assert_ranks(out, NODES[:2], 2)

    def test_all_on_one_node(self):
        code, _, err = self.run_on(NODES[:1], 3, "sh", "-c", WHO)
        self.assertEqual(code, USAGE)
        self.assertIn("start one ddprun with --nproc-per-node=3 in place of 3 tasks", err)

    def test_an_exit_code_is_the_workers_and_the_report_stands_once(self):
        code, _, err = self.run_on(NODES, 1, *self.said, "sh", "-c", "[ $RANK = 1 ] && exit 7; sleep 600")
        self.assertEqual(code, 7, err)
        self.assertEqual(len(re.findall(r"first failure: rank 1 \(local rank 0\) on node 1 \(b\), .* exit code 7", err)), 1, err)

    def begin(self):
        job = self.start(NODES, 1, *self.said, "sh", "-c", "setsid setsid sleep 600 & echo up; sleep 600")
        job.wait_for_line("^up$", count=3)
        return job

    def test_a_place_that_the_user_hands_on_to_all_tasks_is_where_they_meet(self):
        job = self.launch(*self.layout(NODES, 1), *self.handing_on("MASTER_ADDR", NODES[0]), program("ddprun"), "sh", "-c", WHO,
                          name=shutil.which(self.launcher))
        self.assertEqual(job.wait(), 0, job.err())
        self.assert_ranks(job.out(), NODES, 1)
        self.assertEqual(set(re.findall(" at (.*) on ", job.out())), {NODES[0]})
        self.assertRegex(job.err(), "they meet at a:[0-9]+ by MASTER_ADDR")

    # That nothing is left the base class sees.
    def test_an_agent_that_is_killed(self):
        job = self.begin()
        os.kill(self.agent_of(1), signal.SIGKILL)
        self.assertNotEqual(job.wait(), 0)

    def test_ctrl_c_and_the_end_of_the_launcher(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number.name):
                job = self.begin()
                job.send(number)
                job.wait()  # Hydra's own exit code is 0 then.


class OpenMpi(Launchers, Cases):
    launcher = "mpirun.openmpi"
    package = "openmpi-bin"
    rank_variable = "OMPI_COMM_WORLD_RANK"
    one_per_node = "mpirun --map-by ppr:1:node"
    hangs = True  # of version 4.1.4

    def handing_on(self, name, value):
        return ("-x", f"{name}={value}")

    def layout(self, nodes, tasks):
        hosts = ",".join(f"{node}:{tasks}" for node in nodes)
        return ("-mca", "plm_rsh_agent", self.remote_shell, "--host", hosts, "--map-by", f"ppr:{tasks}:node")

    def test_ranks_on_several_nodes_meet_at_mpirun_without_an_agent(self):
        code, out, err = self.end_of(lambda: self.launch(*self.layout(NODES, 2), program("collective_program"), "check-all",
                                                         name=shutil.which(self.launcher)))
        self.assertEqual(code, 0, err)
        self.assertEqual(sorted(re.findall(r"rank (\d) of 6: ok", out)), list("012345"), out)


class Hydra(Launchers, Cases):
    launcher = "mpiexec.hydra"
    package = "mpich"
    rank_variable = "PMI_RANK"
    one_per_node = "mpiexec -ppn 1"
    # It tells its tasks no place to meet at.
    said = ("--master-addr", NODES[0])

    def handing_on(self, name, value):
        return ("-genv", name, value)

    def layout(self, nodes, tasks):
        return ("-launcher", "ssh", "-launcher-exec", self.remote_shell, "-hosts", ",".join(nodes), "-ppn", tasks,
                "-n", tasks * len(nodes))

    def test_no_place_to_meet_at_is_refused(self):
        for words, nodes, tasks in (((), NODES, 1), (("--adapt",), NODES[:2], 2)):
            code, out, err = self.run_on(nodes, tasks, *words, "sh", "-c", WHO)
            self.assertEqual((code, out), (USAGE, ""), err)
            self.assertEqual(len(re.findall("give --master-addr HOST, the node of task 0", err)), len(nodes) * tasks, err)


if __name__ == "__main__":
    main()
