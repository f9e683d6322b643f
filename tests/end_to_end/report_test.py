"""The report: the true culprit with its last words, the same on every node; the result file; output and logs."""

import datetime
import json
import os
import random
import re
import signal
import stat
import tempfile
import time

import support
from support import EndToEndTest, free_port, program


def worker(*modes):
    return [program("worker_stub"), *modes]


def shell(script):
    return ["sh", "-c", script]


class Report(EndToEndTest):
    def agents(self, *words, nproc=4, flags=(), nnodes=2, prefixes=((), ())):
        port = free_port()
        return [self.launch("--nnodes", nnodes, "--node-rank", rank, "--nproc-per-node", nproc, "--master-addr",
                            "127.0.0.1", "--master-port", port, *flags, *words, prefix=prefixes[rank])
                for rank in range(nnodes)]

    def test_the_last_words_of_the_culprit_stand_on_every_node(self):
        agents = self.agents(*shell(
            'if [ $RANK = 5 ]; then for i in $(seq 30); do echo "clue $i" >&2; done; exit 7; fi; exec sleep 1000'))
        for agent in agents:
            self.assertEqual(agent.wait(), 7)
            report = [line for line in agent.seen["err"] if line.startswith("ddprun: ")]
            self.assertLessEqual(len(report), 30)
            text = "\n".join(report)
            self.assertRegex(text, r"rank 5 \(local rank 1\) on node 1 \(.+\), pid \d+: exit code 7")
            self.assertEqual([int(number) for number in re.findall(r"clue (\d+)", text)], list(range(11, 31)))
            self.assertIn("stopped by ddprun", text)
            self.assertEqual(report[-1].split("ddprun: ")[1].strip(), "survivors: 0")

    def test_one_culprit_among_seven_victims_that_fail_soon_after(self):
        rounds = int(os.environ.get("DDPRUN_CULPRIT_ROUNDS", "10"))
        self.assertEqual(len(list(self.culprits(rounds))), rounds)

    def test_the_same_with_clocks_five_seconds_apart(self):
        if os.environ.get("DDPRUN_SANITIZED"):
            self.skipTest("a sanitizer wants to be loaded before the library that sets the clock")
        rounds = int(os.environ.get("DDPRUN_CULPRIT_ROUNDS", "6"))
        ahead = ("env", f"LD_PRELOAD={program('clock_ahead.so')}", "CLOCK_AHEAD_SECONDS=5")
        for prefixes in ((ahead, ()), ((), ahead)):
            for culprit, agents in self.culprits((rounds + 1) // 2, prefixes):
                # The time is that of the culprit's node, so the clocks did differ.
                stamp = re.search(r"^ddprun:   at (.+)$", agents[0].err(), re.MULTILINE)[1]
                at = datetime.datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S.%f %z").timestamp()
                self.assertEqual(at > time.time(), prefixes[culprit // 4] == ahead, stamp)

    def culprits(self, rounds, prefixes=((), ())):
        """Rounds with eight workers, one of them the culprit; yields it and the agents, which have named it."""
        # Which of two nodes speaks first can only follow what happened first while both have a CPU to speak on: on a
        # machine of its own, within 5 ms. Whoever counts rounds has one; beside other tests it may take longer.
        slower = 20 if os.environ.get("DDPRUN_SANITIZED") else 1 if "DDPRUN_CULPRIT_ROUNDS" in os.environ else 5
        seed = random.randrange(1 << 32)
        rng = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            for number in range(rounds):
                culprit = rng.randrange(8)
                mark = os.path.join(folder, str(number))
                delays = " ".join(f"{slower * rng.uniform(0.005, 0.05):.4f}" for _ in range(8))
                # Victims fail 5 to 50 ms (times `slower`) after the culprit's end, unless they are stopped before. The
                # end is when the kernel gives up the lock that the culprit holds.
                agents = self.agents(*shell(
                    f'trap "" TERM; set -- {delays}; shift $RANK; '
                    f'if [ $RANK = {culprit} ]; then exec 9> {mark}.lock; flock 9; touch {mark}; sleep 0.05; exit 3; fi; '
                    f'while [ ! -e {mark} ]; do sleep 0.002; done; exec 9< {mark}.lock; flock -s 9; sleep $1; exit 4'),
                    flags=("--grace", 5),
                    prefixes=prefixes)
                for agent in agents:
                    self.assertEqual(agent.wait(), 3, f"seed {seed}, round {number}")
                    self.assertRegex(agent.err(), f"first failure: rank {culprit} ")
                yield culprit, agents

    def test_error_files_of_both_forms(self):
        nested = '{"message": {"message": "ValueError: nested", "extraInfo": {"py_callstack": "File train.py, line 3"}}}'
        flat = '{"message": "flat words", "timestamp": 1700000000}'
        with tempfile.TemporaryDirectory() as folder:
            own = os.path.join(folder, "own.json")
            for text, words in ((nested, ["ValueError: nested", "File train.py, line 3"]), (flat, ["flat words"])):
                code, _, err = self.run_job("--nproc-per-node", 2, *shell(
                    f"[ $RANK = 1 ] || exec sleep 1000; printf '%s' '{text}' > $TORCHELASTIC_ERROR_FILE; exit 9"),
                    env={"TORCHELASTIC_ERROR_FILE": own})
                self.assertEqual(code, 9)
                for word in words:
                    self.assertIn(word, err)
            code, _, _ = self.run_job(*shell(f"printf '%s' '{nested}' > $TORCHELASTIC_ERROR_FILE; exit 9"),
                                      env={"TORCHELASTIC_ERROR_FILE": own})
            with open(own, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["message"]["errorCode"], 9)

    def test_a_kill_from_outside_is_not_called_out_of_memory(self):
        code, _, err = self.run_job(*worker("signal", "9"))
        self.assertEqual(code, 137)
        self.assertRegex(err, r"signal 9 \(SIGKILL\)")
        self.assertRegex(err, "(?i)not the kernel's OOM killer|out-of-memory|could not be told|OOM")

    def test_the_result_file_tells_everything(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            agents = self.agents(*worker("--only-rank", "2", "exit", "7", "else", "ready-then-wait"), nproc=2,
                                 flags=("--result-file", path + ".$$"))
            for agent in agents:
                self.assertEqual(agent.wait(), 7)
            with open(path + ".$$", encoding="utf-8") as file:
                result = json.load(file)
            self.assertEqual((result["outcome"], result["exit_code"]), ("failed", 7))
            self.assertEqual(result["first_failure"]["rank"], 2)
            self.assertEqual(sorted(end["rank"] for end in result["ranks"]), [0, 1, 2, 3])
            code, _, _ = self.run_job("--result-file", path, "true")
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
            self.assertEqual((code, result["outcome"], result["exit_code"]), (0, "succeeded", 0))
            code, _, err = self.run_job("--result-file", os.path.join(folder, "no", "such", "folder"), "true")
            self.assertEqual(code, 0, "a result file that cannot be written changes nothing else")
            self.assertIn("no/such/folder", err)


class Output(EndToEndTest):
    def test_every_line_whole_in_order_and_equal_to_the_files(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "talk.py")
            with open(script, "w", encoding="ascii") as file:
                file.write("import os, random\nrank = os.environ['RANK']\nrng = random.Random(int(rank))\n"
                           "text = ''.join(f'{rank} {i} ' + 'x' * rng.randrange(60) + '\\n' for i in range(10000))\n"
                           "at = 0\nwhile at < len(text):\n"
                           "    size = rng.randrange(1, 3000)\n    os.write(1, text[at:at + size].encode())\n    at += size\n")
            code, out, err = self.run_job("--nproc-per-node", 8, "--tee", 3, "--log-dir", os.path.join(folder, "logs"),
                                          "--prefix=none", script)
            self.assertEqual((code, err), (0, ""))
            by_rank = {str(rank): [] for rank in range(8)}
            for line in out.splitlines():
                by_rank[line.split()[0]].append(line)
            for rank, lines in by_rank.items():
                self.assertEqual([int(line.split()[1]) for line in lines], list(range(10000)))
                found = [os.path.join(base, name) for base, _, names in os.walk(folder) for name in names
                         if base.endswith(f"/attempt_0/{rank}") and name == "stdout.log"]
                self.assertEqual(len(found), 1)
                with open(found[0], encoding="ascii") as file:
                    self.assertEqual(file.read().splitlines(), lines)

    def test_prefixes_and_choices_of_ranks(self):
        code, out, _ = self.run_job("--nproc-per-node", 3, "--tee", 3, *worker("say", "x"))
        self.assertEqual((code, sorted(out.splitlines())), (0, ["[default0]:x", "[default1]:x", "[default2]:x"]))
        _, out, _ = self.run_job("--nproc-per-node", 2, "--prefix={rank}/{local_rank} {role} {stream}> ", "--role", "t",
                                 *worker("say", "x"))
        self.assertEqual(sorted(out.splitlines()), ["0/0 t stdout> x", "1/1 t stdout> x"])
        _, out, _ = self.run_job("--nproc-per-node", 4, "--show", "1,3", *shell("echo $RANK"))
        self.assertEqual(sorted(out.split()), ["1", "3"])
        _, out, _ = self.run_job("--nproc-per-node", 2, "-r", "1:1", *shell("echo $RANK"))
        self.assertEqual(out.split(), ["0"])

    def test_last_words_without_newline_before_a_kill(self):
        code, out, _ = self.run_job(*shell("printf 'no newline'; kill -9 $$"))
        self.assertEqual((code, out), (137, "no newline"))

    def test_a_reader_that_goes_away_harms_no_worker(self):
        with tempfile.TemporaryDirectory() as folder:
            done = os.path.join(folder, "done")
            command = f"'{program('ddprun')}' sh -c 'seq 200000; touch {done}' | head -n 1"
            status = os.system(command + " > /dev/null")
            self.assertEqual(status, 0)
            self.assertTrue(os.path.exists(done))

    def test_error_files_are_private_to_the_round_and_log_dir_must_be_a_directory(self):
        with tempfile.NamedTemporaryFile() as plain:
            os.chmod(plain.name, stat.S_IRUSR | stat.S_IWUSR)
            code, _, err = self.run_job("--log-dir", plain.name, "--tee", 3, "true")
            self.assertNotEqual(code, 0)
            self.assertIn(plain.name, err)


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
        agent, = self.agents(1, 2, *worker("--only-rank", 0, "session", "ignore-term", "else", "exit", "3"))
        pid = int(agent.wait_for_line(r"^pid (\d+) ")[1])
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
                                     "4K", "-n", 20, "-T", 3, flags=("--result-file", path))
                own = agents[stopped * nnodes // 4]
                pid = int(own.wait_for_line(rf"rank {stopped} of 4: pid (\d+)")[1])
                agents[0].wait_for_line(r"^ +4096 ")
                os.kill(pid, signal.SIGSTOP)
                for agent in agents:
                    self.assertEqual(agent.wait(), 1, agent.err())
                    self.assertRegex(agent.err(), rf"first failure: rank {stopped} \(local rank .*\) on node "
                                     rf"{stopped * nnodes // 4} .*, pid {pid}: does not answer \(rank \d says: .*"
                                     rf"\(operation_timeout\) rank {stopped} does not answer\)\n")
                with open(path, encoding="utf-8") as file:
                    failure = json.load(file)["first_failure"]
                self.assertEqual((failure["rank"], failure["pid"], failure["accusation"], failure["exit_code"]),
                                 (stopped, pid, "does not answer", 1))
                self.assertNotEqual(failure["witness"], stopped)
                self.assertIn(f"rank {stopped} does not answer", failure["testimony"])


class Wrapping(EndToEndTest):
    def test_a_command_in_front_of_some_ranks(self):
        code, out, _ = self.run_job("--nproc-per-node", 3, "--wrap", "0,2:env WRAPPED=%r/%l", *shell(
            'echo "$RANK ${WRAPPED:-plain}"'))
        self.assertEqual((code, sorted(out.splitlines())), (0, ["0 0/0", "1 plain", "2 2/2"]))

    def test_signals_and_exit_codes_pass_through(self):
        code, _, _ = self.run_job("--wrap", "0:env", *worker("exit", "9"))
        self.assertEqual(code, 9)
        job = self.launch("--wrap", "*:sh -c '\"$@\"' sh", *worker("exit-zero-on-term"))
        job.wait_for_line("^ready$")
        job.send(signal.SIGTERM)
        job.wait()
        self.assertIn("got SIGTERM", job.out())

    def test_bad_wraps(self):
        for text in ("gdb", "0:", "x:gdb", "0:'gdb"):
            code, _, err = self.run_job("--wrap", text, "true")
            self.assertEqual((code, "--wrap" in err), (2, True), text)


if __name__ == "__main__":
    support.main()
