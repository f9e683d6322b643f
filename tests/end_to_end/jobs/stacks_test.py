"""ddpctl stacks: what each rank does, and which others wait for it, from any node of the job; without a tool of the user's, and
without stopping a worker."""

import json
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from job_folders import JobsTest
from support import program, worker

SECRET = f"a-secret-of-stacks-{os.getpid():010}"

# All ranks but one wait for a byte of rank 0, as a hub; the one that is late sleeps in a function of its own.
PROGRAM = '''
import os, socket, sys, time

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
port = int(os.environ["HUB_PORT"])


def next_batch():
    print("ready", flush=True)
    time.sleep(1000)  # no event: it is to be seen asleep


def all_meet(connection):
    print("ready", flush=True)
    connection.recv(1)


if rank == 0:
    hub = socket.create_server(("127.0.0.1", port))
    peers = [hub.accept()[0] for _ in range(size - 1)]
    next_batch()
else:
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port))
            break
        except OSError:
            time.sleep(0.01)  # there is no event for a listener of another process
    all_meet(connection)
'''


class Stacks(JobsTest):
    def setUp(self):
        super().setUp()
        self.program = os.path.join(self.runtime, "train.py")
        with open(self.program, "w", encoding="ascii") as file:
            file.write(PROGRAM)
        self.environment["HUB_PORT"] = str(support.free_port())

    def running(self, *arguments, ready, **options):
        launcher = self.launch(*arguments, **options)
        launcher.wait_for_line("ready", ready)
        return launcher, self.await_jobs(lambda: [name for name in self.folders() if not name.startswith(".")])[0]

    def stacks(self, *arguments):
        code, out, err = self.run_ctl("stacks", *arguments)
        self.assertEqual((code, err), (0, ""))
        return out

    def wait_for_places(self, job, places):
        """Until all ranks are where they are going to: a rank prints before it waits."""
        def found():
            groups = json.loads(self.stacks("--json", job))["groups"]
            return sorted((tuple(group["ranks"]), (group["where"] or {}).get("function")) for group in groups) == sorted(places)
        self.assertTrue(self.await_jobs(found), self.stacks(job))

    def test_a_rank_that_is_late_is_told_with_its_line_and_those_that_wait(self):
        for words in ([sys.executable, self.program], ["bash", "-c", f"{sys.executable} {self.program}; true"]):
            self.environment["HUB_PORT"] = str(support.free_port())
            launcher, job = self.running("--nproc-per-node", 4, *words, ready=4)
            self.wait_for_places(job, [((0,), "next_batch"), ((1, 2, 3), "all_meet")])
            told = json.loads(self.stacks("--json", job))
            self.assertEqual((told["schema"], told["id"], told["ranks_asked"], told["ranks_answered"]), (1, job, 4, 4))
            late, others = told["groups"]
            # no event: see above
            line = PROGRAM.splitlines().index("    time.sleep(1000)  # no event: it is to be seen asleep") + 1
            self.assertEqual((late["kind"], late["where"]["line"], late["source"]), ("sleep", line, "python"))
            self.assertEqual(os.path.basename(late["where"]["file"]), "train.py")
            self.assertEqual((others["kind"], others["ranks"]), ("socket", [1, 2, 3]))
            self.assertEqual(told["failed"], [])
            text = self.stacks(job)
            self.assertRegex(" ".join(text.split()), rf"^{job} at this moment: rank 0 \(\S+\) sleeps in next_batch \(train\.py:{line}\); ranks 1-3 wait for rank 0 in all_meet ")
            self.assertRegex(self.stacks("--rank", 0, job), r"1 rank +0  next_batch train\.py")
            self.assertNotIn("next_batch", self.stacks("--rank", 1, job))
            self.assertRegex(self.stacks("--native", "--rank", 1, job), r"rank +1  (__)?recv\S* < .*< all_meet train\.py")
            detail = json.loads(self.stacks("--json", "--threads", "--rank", 1, job))["ranks_detail"]
            self.assertEqual([rank["rank"] for rank in detail], [1])
            self.assertIsNone(json.loads(self.stacks("--json", "--rank", 1, job))["verdict"])
            self.assertEqual(self.run_ctl("kill", job)[0], 0)
            launcher.wait()

    def test_the_other_nodes_are_asked_from_any_node(self):
        port = support.free_port()
        launchers = [self.launch("--nnodes", 2, "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port,
                                 "--nproc-per-node", 2, sys.executable, self.program, env={"DDPRUN_SECRET": SECRET}) for node in range(2)]
        for launcher in launchers:
            launcher.wait_for_line("ready", 2)
        jobs = self.await_jobs(lambda: len(names := [name for name in self.folders() if not name.startswith(".")]) == 2 and names)
        for job in jobs:
            self.wait_for_places(job, [((0,), "next_batch"), ((1, 2, 3), "all_meet")])
            told = json.loads(self.stacks("--json", "--rank", "3", job))
            self.assertEqual(([group["ranks"] for group in told["groups"]], told["ranks_asked"]), ([[3]], 1))
        self.assertEqual(self.run_ctl("kill", jobs[0])[0], 0)
        for launcher in launchers:
            launcher.wait()

    def test_without_a_secret_the_other_nodes_are_named_as_unread(self):
        port = support.free_port()
        launchers = [self.launch("--nnodes", 2, "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port,
                                 "--nproc-per-node", 2, sys.executable, self.program) for node in range(2)]
        for launcher in launchers:
            launcher.wait_for_line("ready", 2)
        jobs = self.await_jobs(lambda: len(names := [name for name in self.folders() if not name.startswith(".")]) == 2 and names)
        told = json.loads(self.stacks("--json", jobs[0]))
        self.assertEqual((told["ranks_asked"], told["ranks_answered"], len(told["failed"])), (4, 2, 2))
        self.assertRegex(told["failed"][0]["why"], "without a secret of the job")
        self.assertEqual(self.run_ctl("kill", jobs[0])[0], 0)
        for launcher in launchers:
            launcher.wait()

    def test_a_stopped_rank_and_one_that_has_ended(self):
        # Rank 0 is to be seen asleep: no event ends that.
        script = f'if [ "$RANK" = 1 ]; then exit 0; fi; echo ready; exec {sys.executable} -c "import time; time.sleep(1000)"'
        launcher, job = self.running("--nproc-per-node", 2, "sh", "-c", script, ready=1)
        self.await_jobs(lambda: [rank for rank in self.status(job)["ranks"] if rank["exit_code"] == 0])
        pid = [rank["pid"] for rank in self.status(job)["ranks"] if rank["rank"] == 0][0]
        os.kill(pid, signal.SIGSTOP)
        kinds = lambda: {rank: group["kind"] for group in json.loads(self.stacks("--json", job))["groups"] for rank in group["ranks"]}
        self.assertTrue(self.await_jobs(lambda: kinds() == {0: "stopped", 1: "ended"}), kinds())
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(self.run_ctl("kill", job)[0], 0)
        launcher.wait()

    def meet_without(self, *mode):
        """The words of a C++ worker of our collectives, one rank of which stays away until the test ends."""
        fifo = os.path.join(self.runtime, "fifo")
        if not os.path.exists(fifo):
            os.mkfifo(fifo)
        self.addCleanup(os.close, os.open(fifo, os.O_RDWR))
        return ["sh", "-c", f"exec {program('collective_program')} {' '.join(map(str, mode))} 600000 < {fifo}"]

    def calls(self, job, awaits):
        """What is told once each of these ranks awaits those."""
        told = {}

        def found():
            told.update(json.loads(self.stacks("--json", job)))
            return {call["rank"]: call["awaits"] for call in told["calls"] if call["awaits"]} == awaits
        self.assertTrue(self.await_jobs(found), told.get("calls"))
        return told

    def test_a_rank_that_does_not_come_to_our_collective_is_named(self):
        # Over TCP a rank is told by its neighbour, which itself waits.
        for transport, awaits in (("auto", {0: [2], 1: [2], 3: [2]}), ("tcp", {0: [2], 1: [2], 3: [1]})):
            self.environment["DDPRUN_TRANSPORT"] = transport
            launcher, job = self.running("--nproc-per-node", 4, *self.meet_without("absent", 2), ready=4)
            told = self.calls(job, awaits)
            by_rank = {call["rank"]: call for call in told["calls"]}
            self.assertEqual([(by_rank[rank]["operation"], by_rank[rank]["number"]) for rank in range(4)],
                             [("all_reduce", 2), ("all_reduce", 2), ("barrier", 1), ("all_reduce", 2)])
            self.assertEqual(len({call["group"] for call in told["calls"]}), 1)
            self.assertEqual([call["since_s"] is None for call in (by_rank[0], by_rank[2])], [False, True])
            self.assertEqual({rank: group["kind"] for group in told["groups"] for rank in group["ranks"]},
                             {0: "collective", 1: "collective", 2: "pipe", 3: "collective"})
            self.assertEqual((told["verdict"]["kind"], told["verdict"]["suspects"], told["verdict"]["waiting"]), ("hang", [2], [0, 1, 3]))
            self.assertRegex(told["verdict"]["sentence"], r"^rank 2 \(\S+\) waits for a pipe.*; ranks 0-1,3 wait in all_reduce.*, call 2")
            self.assertEqual(self.run_ctl("kill", job)[0], 0)
            launcher.wait()

    def test_awaited_ranks_of_a_part_are_told_by_their_numbers_in_the_job(self):
        launcher, job = self.running("--nproc-per-node", 4, *self.meet_without("absent-in-half", 2), ready=4)
        told = self.calls(job, {0: [2]})
        self.assertEqual(told["verdict"]["suspects"], [2])
        self.assertEqual([call["operation"] for call in told["calls"] if call["rank"] == 0], ["all_reduce"])
        self.assertEqual(self.run_ctl("kill", job)[0], 0)
        launcher.wait()

    def test_an_awaited_rank_of_another_host_is_named(self):
        port = support.free_port()
        words = self.meet_without("absent", 3)
        launchers = [self.launch("--nnodes", 2, "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port, "--nproc-per-node", 2,
                                 *words, env={"DDPRUN_SECRET": SECRET, "DDPRUN_HOSTID": f"host-{node}"}) for node in range(2)]
        for launcher in launchers:
            launcher.wait_for_line("ready", 2)
        jobs = self.await_jobs(lambda: len(names := [name for name in self.folders() if not name.startswith(".")]) == 2 and names)
        # Ranks of a host wait for each other, then for those in their places on the other one.
        told = self.calls(jobs[0], {0: [2], 1: [3], 2: [3]})
        self.assertEqual(told["verdict"]["suspects"], [3])
        self.assertEqual(self.run_ctl("kill", jobs[0])[0], 0)
        for launcher in launchers:
            launcher.wait()

    def test_bad_input_is_one_line(self):
        self.assertEqual(self.run_ctl("stacks", "nothing")[0], 2)
        launcher, job = self.running("--nproc-per-node", 2, *worker("ready-then-wait"), ready=2)
        self.assertEqual(self.run_ctl("stacks", "--rank", 2, job)[::2], (2, "ddpctl: --rank 2: the job has 2 ranks"))
        self.assertEqual(self.run_ctl("stacks", "--rank", "x", job)[0], 2)
        self.assertEqual(self.run_ctl("kill", job)[0], 0)
        launcher.wait()
        self.assertEqual(self.run_ctl("stacks", job)[0], 2)

    def test_a_program_without_python_is_read_by_its_native_functions(self):
        launcher, job = self.running("--nproc-per-node", 2, *worker("ready-then-wait"), ready=2)
        groups = lambda: json.loads(self.stacks("--json", job))["groups"]
        self.assertTrue(self.await_jobs(lambda: [group["ranks"] for group in groups()] == [[0, 1]]), groups())
        group = groups()[0]
        self.assertEqual((group["source"], group["frames"][-1]["function"]), ("native", "_start"), group)
        self.assertEqual(self.run_ctl("kill", job)[0], 0)
        launcher.wait()

    def test_an_ended_job_is_named(self):
        job = self.start("true")
        self.await_jobs(lambda: self.status(job)["state"] == "ended")
        code, out, err = self.run_ctl("stacks", job)
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(err, rf"^ddpctl: {job} has ended; 'ddpctl status {job}' says how$")


if __name__ == "__main__":
    support.main()
