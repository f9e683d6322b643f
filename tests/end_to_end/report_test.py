"""The report: the true culprit with its last words, the same on every node; the result file; output and logs."""

import datetime
import json
import os
import random
import re
import resource
import signal
import stat
import tempfile
import time

import support
from support import EndToEndTest, free_port, program, worker


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

    def test_a_reason_above_its_frames_is_in_the_report_and_the_result_file(self):
        forms = {
            "Java": (r"Exception in thread \"main\" X: REASON\n", r"\tat a.b(C.java:1)\n"),
            "watchdog": (r"[rank0]:[E1126 x.cpp:1] Process group watchdog thread terminated with exception: REASON\n",
                         r"frame #1: f() + 0x1 (0x7f in /x.so)\n")}
        for name, (head, frame) in forms.items():
            with tempfile.TemporaryDirectory() as folder:
                result = os.path.join(folder, "result.json")
                code, _, err = self.run_job("--nproc-per-node", 5, "--result-file", result, *shell(
                    f"[ $RANK = 0 ] || exec sleep 1000; printf '{head}' >&2; "
                    f"for i in $(seq 60); do printf '{frame}' >&2; done; exit 3"))
                self.assertEqual(code, 3)
                report = [line for line in err.splitlines() if line.startswith("ddprun: ")]
                self.assertLessEqual(len(report), 30)
                self.assertRegex("\n".join(report), r"last lines on stderr:\n.*REASON\n.*\.\.\. \d+ lines left out \.\.\.\n", name)
                with open(result, encoding="utf-8") as file:
                    lines = json.load(file)["first_failure"]["last_lines"]
                self.assertIn("REASON", lines[0])
                self.assertEqual(len(lines), 20)

    def test_an_error_file_that_cannot_be_used_does_not_replace_the_last_lines(self):
        code, _, err = self.run_job(*shell('echo half > $TORCHELASTIC_ERROR_FILE; echo the REASON >&2; exit 3'))
        self.assertEqual(code, 3)
        self.assertRegex(err, r"(?s)its error file is no JSON; it begins with: half.*its last lines on stderr:\n.*\| the REASON")

    def test_an_error_file_and_other_last_words_are_both_shown(self):
        code, _, err = self.run_job(*shell(
            """echo '{"message": "RuntimeError: x"}' > $TORCHELASTIC_ERROR_FILE; echo the REASON >&2; exit 3"""))
        self.assertEqual(code, 3)
        self.assertRegex(err, r"(?s)error file says:\n.*RuntimeError: x\n.*last lines on stderr:\n.*\| the REASON")

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
        counted = "DDPRUN_CULPRIT_ROUNDS" in os.environ and not os.environ.get("DDPRUN_SANITIZED")
        slower = 1 if counted else 60
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

    def test_a_result_file_that_cannot_be_written_is_known_before_anything_starts(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in (os.path.join(folder, "no", "such", "folder"), folder):
                code, out, err = self.run_job("--result-file", path, *shell("echo started"))
                self.assertEqual((code, out, len(err.splitlines())), (2, "", 1), err)
                self.assertIn(f"--result-file '{path}' cannot be written", err)
            path = os.path.join(folder, "result.json")
            job = self.launch("--result-file", path, *worker("ready-then-wait"))
            job.wait_for_line("^ready$")
            self.assertEqual(os.listdir(folder), [], "nothing that looks like a result while there is none")
            job.send(signal.SIGTERM)
            self.assertEqual((job.wait(), os.listdir(folder)), (143, ["result.json"]))

    def test_a_full_disk_at_the_end_is_a_code_of_its_own_unless_the_job_has_one(self):
        said = "ddprun: --result-file '/dev/full' cannot be written: No space left on device"
        self.assertEqual(self.run_job("--result-file", "/dev/full", "true"), (71, "", said))
        code, _, err = self.run_job("--result-file", "/dev/full", *worker("exit", "7"))
        self.assertEqual((code, err.splitlines()[-1]), (7, said))
        # The room is taken while the job runs; the limit is for each file.
        with tempfile.TemporaryDirectory() as folder:
            code, _, err = self.run_job(
                "--nproc-per-node", 60, "--result-file", os.path.join(folder, "result.json"), "true",
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000)))
            self.assertEqual((code, os.listdir(folder)), (71, []))
            self.assertIn("result.json' cannot be written: File too large", err)

    def test_the_result_may_go_where_the_output_goes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out")
            with open(path, "wb") as out:
                job = self.launch("--result-file", "/dev/stdout", *shell("echo first"),
                                  prefix=("sh", "-c", f'exec "$@" >{path}', "sh"))
                self.assertEqual(job.wait(), 0)
            with open(path, encoding="utf-8") as file:
                first, result = file.read().splitlines()
            self.assertEqual((first, json.loads(result)["outcome"]), ("first", "succeeded"))
            code, out, _ = self.run_job("--result-file", "/dev/stdout", *shell("echo first"))
            self.assertEqual((code, json.loads(out.splitlines()[1])["outcome"]), (0, "succeeded"))

    def test_two_nodes_may_name_one_file(self):
        with tempfile.TemporaryDirectory() as folder:
            agents = self.agents("true", nproc=1, flags=("--result-file", os.path.join(folder, "result.json")))
            self.assertEqual([agent.wait() for agent in agents], [0, 0])
            self.assertEqual(os.listdir(folder), ["result.json"])
            with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
                self.assertIn(json.load(file)["node_rank"], (0, 1))

    def test_a_rank_that_no_node_has_ends_the_job_before_anything_starts(self):
        for flags, words in ((("--show", "0,9"), "--show 9: the job has 2 workers, ranks 0 to 1"),
                             (("--tty", "2"), "--tty 2: the job has 2 workers"),
                             (("--max-restarts", "3", "--wrap", "4:env"), "--wrap '4:env': the job has 2 workers")):
            for agent in self.agents(*shell("echo started"), nproc=1, flags=flags):
                self.assertEqual((agent.wait(), agent.out()), (2, ""))
                self.assertIn(words, agent.err())
        # A local rank may be that of a node with more workers.
        for agent in self.agents("true", nproc=1, flags=("--redirects", "3:3")):
            self.assertEqual(agent.wait(), 0)
            self.assertIn("--redirects 3:3: this node has 1 worker, local rank 0; passed over on this node", agent.err())


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
