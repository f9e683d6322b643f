"""The culprit: whom all nodes name where several workers end at almost the same time, or where none ends by itself."""

import json
import os
import signal
import subprocess
import tempfile

import support
from support import EndToEndTest, free_port, program, worker

# By default a program ends one second late under the thread sanitizer.
TSAN_ENDS_AT_ONCE = {"TSAN_OPTIONS": "atexit_sleep_ms=0"}


# Rank 2 fails by itself, and all that the others see of it is that it is not there any more. It ends after the first of
# them has ended, or not before it is told to. That it shows what it raised before it hangs up is how it is on a machine
# that has time; here it has to be so on any.
RAISES = """
import atexit, contextlib, os, signal, socket, sys, time

folder, manner, end = sys.argv[1:]
rank = int(os.environ["RANK"])


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def tear_down(hang_up, pids):
    hang_up()
    while not any(map(gone, pids)):
        time.sleep(0.001)  # The death of a process that is not its child is no event for it.
    if end == "never":
        signal.pause()


def with_sockets():
    path = os.path.join(folder, "hub")
    if rank == 2:
        hub = socket.socket(socket.AF_UNIX)
        hub.bind(path + "~")
        hub.listen()
        os.rename(path + "~", path)
        peers = contextlib.ExitStack()
        accepted = [peers.enter_context(hub.accept()[0]) for _ in range(3)]
        atexit.register(tear_down, peers.close, [int(peer.recv(16)) for peer in accepted])
        raise ValueError("bad batch")
    while not os.path.exists(path):
        time.sleep(0.001)  # Python has no event for a file.
    with socket.socket(socket.AF_UNIX) as hub:
        hub.connect(path)
        hub.sendall(b"%16d" % os.getpid())
        if not hub.recv(1):
            raise ConnectionResetError(104, "Connection reset by peer")


def with_torch():
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    pids = [torch.zeros(1, dtype=torch.int64) for _ in range(4)]
    dist.all_gather(pids, torch.tensor([os.getpid()]))
    if rank == 2:
        atexit.register(tear_down, dist.destroy_process_group, [int(pid) for other, pid in enumerate(pids) if other != 2])
        raise ValueError("bad batch")
    dist.all_reduce(torch.ones(1))


with_sockets() if manner == "sockets" else with_torch()
"""
SYSTEM_PYTHON = "/usr/bin/python3"  # the one that Debian's python3-torch is for


class RaisedFirst(EndToEndTest):
    """Other ranks lose their connection to the one that raised something, and end before it does."""

    def run_ranks(self, manner="sockets", end="soon", nnodes=1):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "raises.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(RAISES)
            result_file = os.path.join(folder, "result.json")
            port = free_port()
            agents = [self.launch("--nnodes", nnodes, "--node-rank", node, "--nproc-per-node", 4 // nnodes,
                                  "--master-addr", "127.0.0.1", "--master-port", port, "--result-file", result_file,
                                  "--no-python", SYSTEM_PYTHON, "-B", path, folder, manner, end)
                      for node in range(nnodes)]
            self.assertEqual({agent.wait() for agent in agents}, {1}, [agent.err() for agent in agents])
            with open(result_file, encoding="utf-8") as file:
                return agents, json.load(file)

    def assert_named(self, agents, result):
        failure = result["first_failure"]
        self.assertEqual((failure["rank"], failure["exit_code"]), (2, 1))
        # On a machine that has no time rank 2 may not end as soon as that.
        has_ended = failure["witness"] is None
        for agent in agents:
            self.assertRegex(agent.err(), "first failure: rank 2 .*: " + (
                r"exit code 1\n" if has_ended else r"raised ValueError: bad batch \(rank [013] says: .*\)\n"))
            if has_ended:
                self.assertRegex(agent.err(), r"ddprun:     \| ValueError: bad batch\n")
            # Nothing is to be said where the launcher sees that rank 2 has ended before it sees the others.
            if "raised first" in agent.err():
                self.assertRegex(agent.err(), r"ddprun:   rank 2 raised first; ranks? [013,-]+ then lost (its|their) connection")

    def test_the_rank_with_the_true_exception_is_named_although_it_ends_later(self):
        self.assert_named(*self.run_ranks())

    def test_on_another_node_too(self):
        self.assert_named(*self.run_ranks(nnodes=2))

    def test_with_torch(self):
        if subprocess.run([SYSTEM_PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("Debian's package python3-torch is not installed")
        self.assert_named(*self.run_ranks("torch"))

    def test_one_that_does_not_end_is_named_by_what_it_raised(self):
        agents, result = self.run_ranks(end="never")
        self.assertRegex(agents[0].err(), r"first failure: rank 2 .*: raised ValueError: bad batch "
                         r"\(rank [013] says: ConnectionResetError: .*\)\n")
        failure = result["first_failure"]
        self.assertEqual((failure["rank"], failure["exit_code"], failure["accusation"]),
                         (2, 1, "raised ValueError: bad batch"))
        self.assertNotEqual(failure["witness"], 2)


class SlowDeaths(EndToEndTest):
    """Workers so large that they end long after those who heard of their death from the agents."""

    def run_victim(self, victim, *end, nnodes=1, nproc=3, flags=(), others=("exit", "3"), begin=("live", 7)):
        with tempfile.TemporaryDirectory() as folder:
            mark = os.path.join(folder, "mark")
            result_file = os.path.join(folder, "result.json")
            port = free_port()
            agents = [self.launch(
                "--nnodes", nnodes, "--node-rank", rank, "--nproc-per-node", nproc, "--master-addr", "127.0.0.1",
                "--master-port", port, "--result-file", result_file, *flags, *worker(
                    "--only-rank", victim, "hold", 512, *begin, "say", "ready", "wait-for-file", mark, *end, "else",
                    "say", "ready", "wait-for-death", *others), env=TSAN_ENDS_AT_ONCE) for rank in range(nnodes)]
            for agent in agents:
                agent.wait_for_line("^ready$", nproc)
            with open(mark, "w", encoding="utf-8"):
                pass
            codes = {agent.wait() for agent in agents}
            self.assertEqual(len(codes), 1, [agent.err() for agent in agents])
            with open(result_file, encoding="utf-8") as file:
                return codes.pop(), agents, json.load(file)

    def assert_culprit(self, victim, ended, code, run):
        found, agents, result = run
        for agent in agents:
            self.assertRegex(agent.err(), f"first failure: rank {victim} .*: {ended}\n")
            self.assertNotRegex(agent.err(), "(?m)^ddprun:   rank.*signal 9")
        self.assertEqual(found, code)
        self.assertEqual((result["first_failure"]["rank"], result["exit_code"]), (victim, code))
        self.assertEqual([rank["manner"] for rank in result["ranks"] if rank["rank"] == victim], ["failed"])
        self.assertLessEqual({rank["exit_code"] for rank in result["ranks"]}, {code, 3, 128 + signal.SIGTERM})

    def test_the_killed_one_is_the_culprit_on_one_node_and_on_two(self):
        rounds = int(os.environ.get("DDPRUN_CULPRIT_ROUNDS", "3"))
        ended_before_it = 0
        for nnodes in (1, 2):
            for number in range(rounds):
                victim = number % (3 * nnodes)
                run = self.run_victim(victim, "complain", "my last words", "signal", 9, nnodes=nnodes)
                self.assert_culprit(victim, r"signal 9 \(SIGKILL\)", 137, run)
                for agent in run[1]:
                    self.assertIn("my last words", agent.err())
                    self.assertRegex(agent.err(), "hint: .*OOM")
                    ended_before_it += "failed too, exit code 3" in agent.err()
        # Not always, where others keep the CPUs busy; but if never, the test shows nothing.
        self.assertGreater(ended_before_it, 0)

    def test_one_that_exits_with_a_code_is_the_culprit_too(self):
        run = self.run_victim(1, "write-error-file", "flat", "its own words", "exit", 9)
        self.assert_culprit(1, "exit code 9", 9, run)
        self.assertIn("its own words", run[1][0].err())

    def test_one_that_exits_with_zero_is_none(self):
        code, agents, result = self.run_victim(1, "exit", 0)
        self.assertEqual(code, 3)
        self.assertRegex(agents[0].err(), "first failure: rank [02] .*: exit code 3\n")
        self.assertEqual([rank["manner"] for rank in result["ranks"] if rank["rank"] == 1], ["succeeded"])

    def test_a_worker_whose_child_died_and_that_goes_on_is_none(self):
        code, agents, _ = self.run_victim(1, "fork", "live", 8, "signal", 9, "end", "ready-then-wait", begin=())
        self.assertEqual(code, 3)
        self.assertRegex(agents[0].err(), "first failure: rank [02] .*: exit code 3\n")
        self.assertRegex(agents[0].err(), r"rank 1 .*stopped by ddprun, signal 15 \(SIGTERM\)")

    def test_a_death_alone_ends_no_job(self):
        code, agents, _ = self.run_victim(1, "exit", 0, nnodes=2, others=("exit", "0"))
        self.assertEqual((code, agents[0].err()), (0, ""))

    def test_the_restart_is_because_of_the_culprit(self):
        _, agents, result = self.run_victim(2, "signal", 9, flags=("--max-restarts", 1))
        self.assertRegex(agents[0].err(), r"ddprun: rank 2 on node 0 \(.+\): signal 9; restart 1 of 1")
        self.assertRegex(result["restarts"][0]["reason"], "rank 2 .* signal 9")


class Culprits(EndToEndTest):
    """Whom the report names where the first to end by itself is a victim."""

    def agents(self, nnodes, nproc, *words, flags=()):
        port = free_port()
        return [self.launch("-v", "--nnodes", nnodes, "--node-rank", rank, "--nproc-per-node", nproc, "--master-addr",
                            "127.0.0.1", "--master-port", port, "--grace", 30, *flags, *words) for rank in range(nnodes)]

    def test_who_was_killed_though_the_others_end_before_the_kernel_tells(self):
        rounds = int(os.environ.get("DDPRUN_CULPRIT_ROUNDS", "3"))
        for nnodes, victim, size in ((1, 1, 1), (1, 1, 512), (2, 3, 512)):
            for _ in range(rounds):
                self.kill_quietly(nnodes, victim, size)

    def kill_quietly(self, nnodes, victim, size):
        nproc = 4 // nnodes
        with tempfile.TemporaryDirectory() as folder:
            mark = os.path.join(folder, "mark")
            agents = self.agents(nnodes, nproc, *worker(
                "--only-rank", victim, "hold", size, "session", "ready-then-wait", "else", "say", "others", "wait-for-file",
                mark, "exit", "3"))
            for agent in agents:
                for _ in range(nproc):
                    found = agent.wait_for_line(r"^(?:others|pid (\d+) ppid .*)$")
                    pid = int(found[1]) if found[1] else None
                    if pid:
                        victim_pid = pid
            os.kill(victim_pid, signal.SIGKILL)
            with open(mark, "w", encoding="utf-8"):
                pass
            for agent in agents:
                self.assertEqual(agent.wait(), 137, agent.err())
                self.assertRegex(agent.err(), rf"first failure: rank {victim} .* pid {victim_pid}: signal 9 \(SIGKILL\)\n")

    def test_an_end_that_is_none_of_our_doing_is_not_called_ours(self):
        with tempfile.TemporaryDirectory() as folder:
            mark = os.path.join(folder, "mark")
            agent, = self.agents(1, 2, *worker("--only-rank", 0, "session", "ignore-term", "else", "wait-for-file", mark,
                                               "exit", "3"))
            pid = int(agent.wait_for_line(r"^pid (\d+) ")[1])
            agent.wait_for_line("^ready$")  # from here on SIGTERM has no effect on it
            with open(mark, "w", encoding="utf-8"):
                pass
            agent.wait_for_line("stopping the workers")
            os.kill(pid, signal.SIGKILL)
            self.assertEqual(agent.wait(), 3)
        self.assertRegex(agent.err(), r"first failure: rank 1 .*: exit code 3\n")
        self.assertRegex(agent.err(), r"rank 0 .*: failed too, signal 9 \(SIGKILL\)\n")

    def test_who_does_not_answer_is_named_by_the_words_of_the_others(self):
        for nnodes, stopped in ((1, 2), (2, 2), (2, 1)):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "result.json")
                agents = self.agents(nnodes, 4 // nnodes, program("ddpbench"), "all_reduce", "-b", "4K", "-e", "40M", "-i",
                                     "4K", "-n", 20, "-T", 10, flags=("--result-file", path))
                own = agents[stopped * nnodes // 4]
                pid = int(own.wait_for_line(rf"rank {stopped} of 4: pid (\d+)")[1])
                agents[0].wait_for_line(r"^ +4096 ")
                os.kill(pid, signal.SIGSTOP)
                for agent in agents:
                    self.assertEqual(agent.wait(), 1, agent.err())
                    self.assertRegex(agent.err(), rf"first failure: rank {stopped} \(local rank .*\) on node "
                                     rf"{stopped * nnodes // 4} .*, pid {pid}: does not answer \(rank \d says: (all_reduce|barrier).*"
                                     rf"\(operation_timeout\) rank {stopped} does not answer\)\n")
                with open(path, encoding="utf-8") as file:
                    failure = json.load(file)["first_failure"]
                self.assertEqual((failure["rank"], failure["pid"], failure["accusation"], failure["exit_code"]),
                                 (stopped, pid, "does not answer", 1))
                self.assertNotEqual(failure["witness"], stopped)
                self.assertIn(f"rank {stopped} does not answer", failure["testimony"])


if __name__ == "__main__":
    support.main()
