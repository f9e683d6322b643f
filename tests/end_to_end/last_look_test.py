"""What the ranks did when one of them failed: they are looked at before any of them is told to end, and the report says who held whom."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile

from support import EndToEndTest, free_port, main, worker

SYSTEM_PYTHON = "/usr/bin/python3"  # the one that Debian's python3-torch is for

# Rank 0 is a hub that the others wait for; the last one fails as `end` says, once all others are where they are going to.
PROGRAM = '''import ctypes, os, signal, socket, sys, time

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
folder, late, end = sys.argv[1:]
PORT = int(os.environ["HUB_PORT"])


def next_batch():
    time.sleep(1000)  # no event: it is to be seen asleep


def held_by_the_kernel():
    if ctypes.CDLL(None).vfork() == 0:
        signal.pause()


def traced():
    """By the parent, before it is one."""
    if (child := os.fork()) == 0:
        parent = os.getppid()
        ctypes.CDLL(None).ptrace(16, parent, 0, 0)
        os.waitpid(parent, 0x40000000)
        signal.pause()
    os.waitpid(child, 0)


def stopped():
    os.kill(os.getpid(), 19)


def changes():
    def deeper(depth):
        return depth if depth == 0 else deeper(depth - 1) + len([object() for _ in range(50)])
    while True:
        deeper(200)


def all_meet(connection):
    connection.recv(1)


def come():
    """Says who this is, for the last rank."""
    with open(os.path.join(folder, f"{rank}~"), "w") as file:
        file.write(str(os.getpid()))
    os.rename(os.path.join(folder, f"{rank}~"), os.path.join(folder, str(rank)))


def wait_for_others():
    states = {"next_batch": "S", "held_by_the_kernel": "D", "traced": "t", "stopped": "T", "changes": "R"}
    for other in range(size - 1):
        wanted = states[late] if other == 0 else "S"
        while True:
            try:
                with open(os.path.join(folder, str(other))) as file, open(f"/proc/{file.read()}/stat") as stat, \\
                        open(stat.name.replace("stat", "wchan")) as wchan:
                    state, place = stat.read().rpartition(")")[2].split()[0], wchan.read()
                    if state == wanted and (wanted != "S" or "sleep" in place or "wait" in place):
                        break
            except OSError:
                pass
            time.sleep(0.01)  # there is no event for what another process waits for


def connected():
    while True:
        try:
            return socket.create_connection(("127.0.0.1", PORT))
        except OSError:
            time.sleep(0.01)  # there is no event for a listener of another process


if rank == 0:
    hub = socket.create_server(("127.0.0.1", PORT))
    peers = [hub.accept()[0] for _ in range(size - 1)]
    come()
    globals()[late]()
    next_batch()
else:
    connection = connected()
    if rank < size - 1:
        come()
        all_meet(connection)
    wait_for_others()
    if end == "time":
        connection.settimeout(0.1)
        all_meet(connection)
    sys.exit(7)
'''

TORCH = '''import datetime, os, sys, time
import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])


def next_batch():
    time.sleep(1000)  # no event: it is to be seen asleep


def step():
    dist.all_reduce(torch.ones(1), group=group)


dist.init_process_group("gloo")
dist.barrier()
group = dist.new_group(timeout=datetime.timedelta(seconds=3 if rank == 3 else 600))
dist.all_reduce(torch.ones(1), group=group)
if rank == 2:
    next_batch()
step()
'''


def line_of(text, words):
    return 1 + text[:text.index(words)].count("\n")


SLEEPS = line_of(PROGRAM, "it is to be seen asleep")
WAITS = line_of(PROGRAM, "connection.recv(1)")


class LastLook(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.environment["HUB_PORT"] = str(free_port())

    def ranks(self, text, *arguments, nnodes=1, flags=(), python=sys.executable):
        """Runs four ranks; returns the agents that have ended, and the result of the last one."""
        path = os.path.join(self.folder, "late.py")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        port = free_port()
        results = [os.path.join(self.folder, f"result{node}.json") for node in range(nnodes)]
        agents = [self.launch("--nnodes", nnodes, "--node-rank", node, "--nproc-per-node", 4 // nnodes,
                              "--master-addr", "127.0.0.1", "--master-port", port, "--result-file", results[node], *flags,
                              "--no-python", python, "-B", path, *arguments)
                  for node in range(nnodes)]
        codes = {agent.wait() for agent in agents}
        self.assertEqual(len(codes), 1, [agent.err() for agent in agents])
        found = []
        for path in results:
            with open(path, encoding="utf-8") as file:
                found.append(json.load(file))
        self.assertEqual(found[0]["exit_code"], codes.pop())
        return agents, found[0]

    def test_a_time_out_names_the_rank_that_was_waited_for(self):
        events = os.path.join(self.folder, "events")
        agents, result = self.ranks(PROGRAM, self.folder, "next_batch", "time", flags=("--events", events))
        self.assertEqual((result["exit_code"], result["first_failure"]["rank"]), (1, 3))
        self.assertIn(f"ddprun:   others when it failed: rank 0 slept in next_batch (late.py:{SLEEPS}); "
                      f"ranks 1-2 waited for rank 0 in all_meet (late.py:{WAITS}); rank 3 gave up first\n", agents[0].err())
        told = [{"ranks": [{"first": 1, "last": 2}], "manner": "waited",
                 "doing": f"waited for rank 0 in all_meet (late.py:{WAITS})"},
                {"ranks": [{"first": 0, "last": 0}], "manner": "stood", "doing": f"slept in next_batch (late.py:{SLEEPS})"}]
        self.assertEqual(result["first_failure"]["others"], told)
        self.assertEqual(result["first_failure"]["left"], [])
        with open(events, encoding="utf-8") as file:
            found = [event["metadata"] for event in map(json.loads, file) if event["name"] == "ddprun.stacks"]
        self.assertEqual([(event["half_of_grace"], event["groups"]) for event in found], [(False, told)])

    def test_at_another_failure_they_are_told_too(self):
        def fails(folder):
            agents, result = self.ranks(PROGRAM, folder, "next_batch", "exit")
            self.assertEqual((result["exit_code"], result["first_failure"]["rank"]), (7, 3))
            return agents[0].err()
        self.assert_told(fails, f"ddprun:   others when it failed: rank 0 slept in next_batch (late.py:{SLEEPS}); "
                         f"ranks 1-2 waited for rank 0 in all_meet (late.py:{WAITS})\n")

    def assert_told(self, fails, words):
        """On a machine that has no time nothing may have answered within 20 ms."""
        said = ""
        for _ in range(20):
            self.environment["HUB_PORT"] = str(free_port())
            with tempfile.TemporaryDirectory() as folder:
                said = fails(folder)
            if words in said:
                return
        self.fail(said)

    def test_ranks_of_native_programs_that_wait_for_another_rank(self):
        text = PROGRAM.replace("        come()\n        all_meet(connection)\n", """        come()
        os.execvp("bash", ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{PORT}; read -u 3"])
""").replace("range(size - 1)]", "range(2 * size - 3)]")
        agents, _ = self.ranks(text, self.folder, "next_batch", "time")
        line = line_of(text, "it is to be seen asleep")
        self.assertRegex(agents[0].err(), rf"others when it failed: rank 0 slept in next_batch \(late.py:{line}\); "
                         "ranks 1-2 waited for rank 0.*; rank 3 gave up first")

    def test_the_ranks_of_all_nodes_are_told_on_each(self):
        words = [rf"rank 0 slept in next_batch \(late.py:{SLEEPS}\)", rf"rank 1 waited for rank 0 in all_meet \(late.py:{WAITS}\)",
                 rf"rank 2 waited for .* in all_meet \(late.py:{WAITS}\)", "; rank 3 gave up first\n"]

        def fails(folder):
            agents, _ = self.ranks(PROGRAM, folder, "next_batch", "time", nnodes=2)
            said = [agent.err() for agent in agents]
            is_told = all(re.search("others when it failed: .*" + one, text) for text in said for one in words)
            return "all are told" if is_told else "\n".join(said)
        # The node that has not failed looks for 20 ms.
        self.assert_told(fails, "all are told")

    def test_at_the_loss_of_a_node_those_that_are_left_are_told(self):
        path = os.path.join(self.folder, "late.py")
        text = PROGRAM.replace("    wait_for_others()\n", "    wait_for_others()\n    print('others wait', flush=True)\n    signal.pause()\n")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        port = free_port()
        agents = [self.launch("--nnodes", 2, "--node-rank", node, "--nproc-per-node", 2, "--master-addr", "127.0.0.1",
                              "--master-port", port, "--no-python", sys.executable, "-B", path, self.folder, "next_batch", "exit")
                  for node in range(2)]
        agents[1].wait_for_line("others wait")
        agents[1].send(signal.SIGKILL)
        self.assertNotEqual(agents[0].wait(), 0)
        self.assertRegex(agents[0].err(), r"ranks when it was lost: rank 0 slept in next_batch \(late.py:\d+\); "
                         r"rank 1 waited for rank 0 in all_meet \(late.py:\d+\)\n")

    def test_at_a_restart_they_are_told_too(self):
        path = os.path.join(self.folder, "late.py")
        with open(path, "w", encoding="ascii") as file:
            file.write(PROGRAM.replace("\n\n", "\n\nif os.environ['TORCHELASTIC_RESTART_COUNT'] == '1':\n    sys.exit(0)\n", 1))

        def fails(folder):
            job = self.launch("--nproc-per-node", 4, "--max-restarts", 1, "--min-uptime", 0, "--no-python", sys.executable, "-B",
                              path, folder, "next_batch", "exit")
            self.assertEqual(job.wait(), 0, job.err())
            return job.err()
        self.assert_told(fails, "ddprun: others when it failed: rank 0 slept in next_batch (late.py:")

    def test_ranks_that_compute_or_stand_where_no_line_is_known_tell_nothing(self):
        for words in ([sys.executable, "-c", 'import os\nif os.environ["RANK"] == "0":\n    os._exit(3)\nwhile True:\n    pass'],
                      ["sh", "-c", '[ $RANK = 0 ] && exit 3; exec sleep 1000'], worker("exit", "3")):
            code, _, err = self.run_job("--nproc-per-node", 3, "--no-python", *words)
            self.assertEqual(code, 3, err)
            self.assertNotIn("when it failed", err)

    def test_a_user_who_ends_the_job_waits_for_no_look(self):
        job = self.launch("--nproc-per-node", 2, "--no-python", sys.executable, "-c",
                          "import signal\nprint('ready', flush=True)\nsignal.pause()")
        job.wait_for_line("ready", 2)
        job.send(signal.SIGINT)
        self.assertEqual(job.wait(), 130, job.err())
        self.assertNotIn("at that time", job.err())

    def test_who_does_not_end_is_told_at_half_of_the_grace(self):
        text = PROGRAM.replace("def next_batch():\n", "def next_batch():\n    signal.signal(15, signal.SIG_IGN)\n")
        agents, result = self.ranks(text, self.folder, "next_batch", "exit", flags=("--grace", 2))
        line = line_of(text, "it is to be seen asleep")
        self.assertEqual(result["exit_code"], 7)
        for head in ("ddprun: left at half of the grace: ", "ddprun:   left at half of the grace: "):
            self.assertIn(f"{head}rank 0 slept in next_batch (late.py:{line})\n", agents[0].err())
        self.assertEqual([one["doing"] for one in result["first_failure"]["left"]], [f"slept in next_batch (late.py:{line})"])

    def test_a_worker_that_cannot_be_read_holds_nothing(self):
        for late, told in (("stopped", "rank 0 was stopped"), ("held_by_the_kernel", "rank 0 "), ("traced", "rank 0 "),
                           ("changes", "rank 0 ran in ")):
            with self.subTest(late), tempfile.TemporaryDirectory() as folder:
                self.environment["HUB_PORT"] = str(free_port())
                agents, result = self.ranks(PROGRAM, folder, late, "time", flags=("--grace", 1))
                self.assertEqual(result["exit_code"], 1)
                self.assertRegex(agents[0].err(), rf"others when it failed: {told}.*; ranks 1-2 waited for rank 0 in all_meet ")

    def test_with_torch(self):
        if subprocess.run([SYSTEM_PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("Debian's package python3-torch is not installed")
        agents, result = self.ranks(TORCH, python=SYSTEM_PYTHON)
        self.assertEqual((result["exit_code"], result["first_failure"]["rank"]), (1, 3), agents[0].err())
        self.assertRegex(agents[0].err(), r"others when it failed: rank 2 slept in next_batch \(late.py:\d+\); .*rank 3 gave up first\n")


if __name__ == "__main__":
    main()
