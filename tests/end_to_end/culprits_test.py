"""The culprit: whom all nodes name where several workers end at almost the same time, or where none ends by itself."""

import json
import os
import signal
import tempfile

import support
from support import EndToEndTest, free_port, program, worker

# By default a program ends one second late under the thread sanitizer.
TSAN_ENDS_AT_ONCE = {"TSAN_OPTIONS": "atexit_sleep_ms=0"}


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
