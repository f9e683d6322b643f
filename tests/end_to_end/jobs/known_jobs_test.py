"""Jobs in the foreground: ddpctl lists, shows and ends them, too, and nothing is left of them."""

import json
import os
import re
import signal
import stat
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from job_folders import JobsTest, is_alive
from support import worker

SECRET = f"a-secret-of-known-jobs-{os.getpid():010}"


class Foreground(JobsTest):
    def running(self, *arguments, **options):
        """A launcher whose workers run, and the name of its job."""
        launcher = self.launch(*arguments, **options)
        launcher.wait_for_line("ready")
        return launcher, self.await_jobs(lambda: [name for name in self.folders() if not name.startswith(".")])[0]

    def test_it_is_known_while_it_runs_and_leaves_nothing(self):
        launcher, job = self.running("--nproc-per-node", 2, *worker("ready-then-wait"))
        self.assertRegex(job, r"^worker_stub-[0-9a-f]{4}$")
        self.assertEqual(sorted(os.listdir(os.path.join(self.jobs, job))), ["control", "job.json"])
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.jobs, job, "control")).st_mode), 0o600)
        status = self.status(job)
        self.assertEqual((status["state"], status["job"]["pid"]), ("running", launcher.process.pid))
        self.assertEqual([entry["rank"] for entry in status["ranks"]], [0, 1])
        self.assertEqual((status["schema"], status["id"], os.path.basename(status["name"]), status["verdict"]), (1, job, "worker_stub", None))
        self.assertRegex(self.run_ctl("list")[1].splitlines()[1], rf"^{job} +running +0/1 +2 +\d+s +\S*worker_stub$")
        self.assertEqual(sorted(self.run_ctl("logs", job)[1].splitlines()), ["[0] ready", "[1] ready"])
        self.assertEqual(self.run_ctl("kill", job), (0, f"{job}: ended", ""))
        self.assertEqual(launcher.wait(), 143)
        self.assertEqual(self.folders(), [])

    def test_it_is_called_as_its_script_is(self):
        script = os.path.join(self.runtime, "train.sh")
        with open(script, "w", encoding="ascii") as file:
            file.write(f"echo ready; while [ ! -e {self.go} ]; do sleep 0.01; done\n")
        for words in (["bash", script], ["env", "A=1", "sh", "-e", script, "--lr=1"]):
            launcher, job = self.running(*words)
            self.assertRegex(job, r"^train-[0-9a-f]{4}$")
            self.assertEqual(self.run_ctl("kill", "train")[0], 0)
            launcher.wait()
        launcher, job = self.running("bash", "-c", f"while [ ! -e {self.go} ]; do echo ready; sleep 0.01; done")
        self.assertRegex(job, r"^bash-[0-9a-f]{4}$")
        self.let_go()
        launcher.wait()

    def test_its_last_lines_are_shown_and_followed(self):
        script = os.path.join(self.runtime, "train.sh")
        with open(script, "w", encoding="ascii") as file:
            file.write(f"for i in 1 2 3; do echo step $i of $RANK; done; echo trouble of $RANK >&2; echo ready; "
                       f"while [ ! -e {self.go} ]; do sleep 0.01; done; echo end of $RANK\n")
        launcher, job = self.running("--nproc-per-node", 2, "bash", script)
        self.await_jobs(lambda: self.run_ctl("logs", job)[1].count("ready") == 2)
        of_rank = ["step 1 of 1", "step 2 of 1", "step 3 of 1", "ready"]
        lines = self.run_ctl("logs", "--rank", "1", job)[1].splitlines()
        self.assertEqual([line for line in lines if line != "trouble of 1"], of_rank)
        self.assertIn("trouble of 1", lines)
        for arguments, shown in ((["--grep", "step 2"], ["[0] step 2 of 0", "[1] step 2 of 1"]),
                                 (["--rank", "0", "--tail", "2", "--grep", "step"], ["step 2 of 0", "step 3 of 0"]),
                                 (["--tail", "0"], []), (["--grep", "nothing"], []), (["--since", "0"], [])):
            self.assertEqual(sorted(self.run_ctl("logs", *arguments, job)[1].splitlines()), shown, arguments)
        self.assertEqual(len(self.run_ctl("logs", "--since", "1h", job)[1].splitlines()), 10)
        self.assertEqual(self.run_ctl("logs", "--rank", "2", job)[::2],
                         (2, "ddpctl: --rank 2: the job has 2 ranks"))
        follower = self.ctl("logs", "--follow", "--tail", "1", "--rank", "0", job)
        follower.wait_for_line("^ready$|^trouble of 0$")
        self.let_go()
        follower.wait_for_line("^end of 0$")
        self.assertEqual((follower.wait(), launcher.wait()), (0, 0))

    def test_what_a_slow_client_has_missed_is_told_in_its_place(self):
        script = f"echo ready; while [ ! -e {self.go} ]; do sleep 0.01; done; seq 1000000; echo end; while [ ! -e {self.go}.again ]; do sleep 0.01; done"
        launcher, job = self.running("sh", "-c", script)
        follower = self.ctl("logs", "-f", job)
        follower.wait_for_line("^ready$")
        follower.send(signal.SIGSTOP)
        self.let_go()
        self.await_jobs(lambda: self.run_ctl("logs", "--tail", 1, job)[1] == "end")
        follower.send(signal.SIGCONT)
        follower.wait_for_line(r"^\[\.\.\. \d+ bytes were not kept \.\.\.\]$")
        follower.wait_for_line("^end$")
        open(self.go + ".again", "w", encoding="ascii").close()
        self.assertEqual((launcher.wait(), follower.wait()), (0, 0))
        lines = follower.out().splitlines()
        gaps = [int(line.split()[1]) for line in lines if line.startswith("[...")]
        shown = sum(len(line) + 1 for line in lines if not line.startswith("[..."))
        self.assertEqual(shown + sum(gaps), sum(len(str(number)) + 1 for number in range(1, 1000001)) + len("ready\nend\n"))

    def test_a_progress_bar_is_shown_as_it_stands(self):
        launcher, job = self.running("--nproc-per-node", 2, "sh", "-c", r"echo begun; echo ready; printf '\rstep 1\rstep 2' >&2; "
                                     f"while [ ! -e {self.go} ]; do sleep 0.01; done; printf '\\rstep 3\\n' >&2")
        self.await_jobs(lambda: self.run_ctl("logs", job)[1].count("step 2") == 2)
        self.assertEqual(self.run_ctl("logs", "--tail", 2, job)[1].splitlines(), ["[0] step 2", "[1] step 2"])
        follower = self.ctl("logs", "--follow", "--rank", 0, job)
        follower.wait_for_line("^step 2$")
        self.let_go()
        follower.wait_for_line("^step 3$")
        self.assertEqual((launcher.wait(), follower.wait()), (0, 0))
        self.assertNotIn("were not kept", follower.out())

    def test_its_events_are_shown(self):
        launcher, job = self.running("--max-restarts", "1", "sh", "-c", 'echo ready; [ "$TORCHELASTIC_RESTART_COUNT" = 1 ] || exit 5; '
                                     f"while [ ! -e {self.go} ]; do sleep 0.01; done")
        text = self.await_jobs(lambda: (said := self.run_ctl("events", job)[1]).count("round.started") == 2 and said)
        self.assertRegex(text, r"(?m)^\d{4}-.* [+-]\d{4}  worker\.ended  round=0  rank=0 .*exit_code=5")
        lines = [json.loads(line) for line in self.run_ctl("events", "--json", job)[1].splitlines()]
        self.assertIn("ddprun.round.ready", [line["name"] for line in lines])
        self.let_go()
        self.assertEqual(launcher.wait(), 0)

    def test_its_events_are_followed_to_its_end(self):
        launcher, job = self.running("--max-restarts", "1", "sh", "-c", f'echo ready; while [ ! -e {self.go} ]; do sleep 0.01; done; '
                                     f'[ "$TORCHELASTIC_RESTART_COUNT" = 1 ] || exit 5; while [ ! -e {self.go}.again ]; do sleep 0.01; done; exit 6')
        follower, lines = self.ctl("events", "--follow", job), self.ctl("events", "-f", "--json", job)
        follower.wait_for_line(r"  round\.started  round=0")
        self.let_go()
        follower.wait_for_line(r"  worker\.ended  round=0 .*exit_code=5")
        follower.wait_for_line(r"  round\.started  round=1")
        open(self.go + ".again", "w", encoding="ascii").close()
        self.assertEqual((launcher.wait(), follower.wait(), lines.wait()), (6, 0, 0))
        events = [json.loads(line) for line in lines.out().splitlines()]
        names = [event["name"] for event in events]
        self.assertEqual(names.count("ddprun.round.ready"), 2)
        self.assertEqual([name for name in names if name.startswith("ddprun.")][-1], "ddprun.ended")
        self.assertEqual(follower.out().splitlines()[-1].split()[3], "ended")

    def test_attach_follows_it_and_ends_with_its_code(self):
        launcher, job = self.running("--nproc-per-node", 2, "sh", "-c", f"echo ready; while [ ! -e {self.go} ]; do sleep 0.01; done; "
                                     'echo end of $RANK; [ $RANK = 0 ] || exit 7')
        interrupted, attached = self.ctl("attach", job), self.ctl("attach", job)
        for one in (interrupted, attached):
            one.wait_for_line(r"^\[1\] ready$")
        interrupted.send(signal.SIGINT)
        self.assertEqual(interrupted.wait(), 130)
        self.assertIn(f"job {job} goes on", interrupted.err())
        self.let_go()
        self.assertEqual((attached.wait(), launcher.wait()), (7, 7), attached.err())
        self.assertIn("[1] end of 1", attached.out().splitlines())

    def test_a_launcher_that_was_killed_is_told_to_all_that_follow_and_ask(self):
        launcher, job = self.running(*worker("ready-then-wait"))
        followers = [self.ctl("attach", job), self.ctl("logs", "-f", job), self.ctl("events", "-f", job)]
        for follower, line in zip(followers, ("^ready$", "^ready$", "round.started")):
            follower.wait_for_line(line)
        launcher.send(signal.SIGKILL)
        launcher.wait()
        why = f"ddpctl: job {job} is lost: its launcher ended without a result, and of a job in the foreground no output is left"
        for follower in followers:
            self.assertEqual((follower.wait(), follower.err()), (69, why))
        for command in (["attach"], ["logs"], ["logs", "-f"], ["logs", "--rank", 0], ["events"]):
            self.assertEqual(self.run_ctl(*command, job), (69, "", why), command)
        self.assertEqual(self.run_ctl("kill", job), (0, f"{job}: lost", ""))

    def test_a_suspended_launcher_is_named_at_once_with_what_helps(self):
        launcher, job = self.running(*worker("ready-then-wait"))
        launcher.send(signal.SIGSTOP)
        self.await_jobs(lambda: "suspended" in self.run_ctl("list")[1])
        why = (f"ddpctl: job {job} is suspended: 'fg' in its shell or 'kill -CONT {launcher.process.pid}' lets it go on, "
               f"'ddpctl kill --signal KILL {job}' ends it")
        code, out, err = self.run_ctl("list")
        self.assertEqual((code, err), (0, why))
        self.assertRegex(out, rf"(?m)^{job} +suspended ")
        self.assertEqual([one["state"] for one in json.loads(self.run_ctl("list", "--json")[1])], ["suspended"])
        self.assertEqual(self.status(job)["state"], "suspended")
        code, out, err = self.run_ctl("status", job)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("hint       " + why.removeprefix("ddpctl: "), out.splitlines())
        for command in (["logs"], ["logs", "-f"], ["attach"], ["events"], ["kill"], ["kill", "--no-wait"]):
            self.assertEqual(self.run_ctl(*command, job), (71, "", why), command)
        launcher.send(signal.SIGCONT)
        self.assertEqual(self.await_jobs(lambda: self.run_ctl("logs", job)[1] == "ready" and "running"), "running")
        launcher.send(signal.SIGSTOP)
        self.await_jobs(lambda: "suspended" in self.run_ctl("list")[1])
        self.assertEqual(self.run_ctl("kill", "-9", job), (0, f"{job}: lost", ""))
        self.assertEqual(launcher.wait(), -signal.SIGKILL)

    def test_what_is_in_files_is_said(self):
        logs = os.path.join(self.runtime, "logs")
        launcher, job = self.running("--log-dir", logs, "--redirects", "0:1", "--nproc-per-node", 2, *worker("say", "hello", "ready-then-wait"))
        self.await_jobs(lambda: "[1] ready" in self.run_ctl("logs", job)[1])
        code, out, err = self.run_ctl("logs", job)
        self.assertEqual((code, sorted(out.splitlines())), (0, ["[1] hello", "[1] ready"]))
        self.assertRegex(err, rf"^ddpctl: node 0 \(\S+\) has what goes to files in {logs}/\S+$")
        self.assertEqual(self.run_ctl("kill", job)[0], 0)
        launcher.wait()

    def test_so_many_follow_it_and_one_more_is_refused(self):
        launcher, job = self.running(*worker("ready-then-wait"))
        followers = [self.ctl("logs", "-f", job) for _ in range(64)]
        for follower in followers:
            follower.wait_for_line("^ready$")
        self.assertEqual(self.run_ctl("logs", job), (71, "", "ddpctl: the launcher has 64 clients that follow the job, and takes no more"))
        self.assertEqual(self.status(job)["state"], "running")
        followers[0].send(signal.SIGTERM)
        followers[0].wait()
        self.await_jobs(lambda: self.run_ctl("logs", job)[0] == 0)
        self.assertEqual(self.run_ctl("kill", job)[0], 0)
        self.assertEqual([launcher.wait(), *(follower.wait() for follower in followers[1:])], [143] + [0] * 63)

    def test_a_signal_reaches_it_as_it_reaches_a_detached_one(self):
        launcher, job = self.running("--forward", "USR1", *worker("ready-then-wait"))
        self.assertEqual(self.run_ctl("kill", "--signal", "USR2", job)[0], 2)
        self.assertEqual(self.run_ctl("kill", "--signal", "USR1", "--no-wait", job)[0], 0)
        # The worker ends by it.
        self.assertEqual(launcher.wait(), 128 + signal.SIGUSR1)
        self.assertEqual(self.folders(), [])

    def test_it_runs_where_no_folder_can_be_made(self):
        os.makedirs(self.jobs)
        os.chmod(self.jobs, 0o755)
        launcher = self.launch("-v", *worker("ready-then-wait"))
        launcher.wait_for_line("^ddprun: ddpctl does not know of this job: .*others than its owner have permissions for it")
        launcher.send(signal.SIGTERM)
        self.assertEqual((launcher.wait(), self.folders()), (143, []))

    def test_what_a_killed_one_has_left_goes_with_a_later_one(self):
        launcher, job = self.running(*worker("ready-then-wait"))
        launcher.send(signal.SIGKILL)
        launcher.wait()
        self.assertEqual(self.status(job)["state"], "lost")
        second = self.launch(*worker("ready-then-wait"))
        self.await_jobs(lambda: len(self.folders()) == 2 and not self.folders()[0].startswith("."))
        self.assertIn(job, self.folders(), "a launcher that begins now may look like this")
        os.utime(os.path.join(self.jobs, job), (0, 0))
        third = self.launch(*worker("ready-then-wait"))
        self.await_jobs(lambda: len(self.folders()) == 2 and not self.folders()[0].startswith(".") and job not in self.folders())
        for launcher in (second, third):
            launcher.send(signal.SIGTERM)
            launcher.wait()
        self.assertEqual(self.folders(), [])

    def test_a_job_of_one_name_is_told_apart_from_another(self):
        first, job = self.running("--rdzv-id", "one", *worker("ready-then-wait"))
        second = self.launch("--rdzv-id", "two", *worker("ready-then-wait"))
        second.wait_for_line("ready")
        names = self.await_jobs(lambda: len(self.folders()) == 2 and not self.folders()[0].startswith(".") and self.folders())
        other = next(name for name in names if name != job)
        self.assertEqual(self.run_ctl("kill", "worker_stub")[0], 2)
        self.assertEqual(self.run_ctl("kill", other)[0], 0)
        self.assertEqual((second.wait(), self.folders()), (143, [job]))
        self.assertEqual(self.run_ctl("kill", job)[0], 0)
        self.assertEqual(first.wait(), 143)


class Nodes(JobsTest):
    """Two nodes on this machine: the later folder has a "-2" behind its name."""

    def two(self, *flags, words=None, secret=None):
        port = support.free_port()
        env = {"DDPRUN_SECRET": secret} if secret else {}
        launchers = [self.launch("--nnodes", 2, "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port,
                                 "--nproc-per-node", 2, *flags, *(words or worker("ready-then-wait")), env=env) for node in (0, 1)]
        names = self.await_jobs(lambda: len(self.folders()) == 2 and not self.folders()[0].startswith(".") and self.folders())
        of_node = {self.status(name)["job"]["node_rank"]: name for name in names}
        return launchers, [of_node[0], of_node[1]]

    def test_any_node_tells_of_all(self):
        launchers, names = self.two()
        for name in names:
            status = self.status(name)
            self.assertEqual((status["id"], status["state"], status["world_size"]), (name, "running", 4))
            self.assertEqual([(one["node"], one["state"], one["first_rank"], one["ranks"], one["pid"]) for one in status["nodes"]],
                             [(0, "running", 0, 2, launchers[0].process.pid), (1, "running", 2, 2, launchers[1].process.pid)])
            self.assertEqual([(one["rank"], one["local_rank"], one["node"], one["state"]) for one in status["ranks"]],
                             [(0, 0, 0, "running"), (1, 1, 0, "running"), (2, 0, 1, "running"), (3, 1, 1, "running")])
            self.assertTrue(all(is_alive(one["pid"]) for one in status["ranks"]))
            self.assertRegex(self.run_ctl("status", name)[1], r"(?m)^ +rank 3 \(local rank 1\) on node 1 \(.*\), pid \d+$")
        self.end(launchers)

    def test_a_node_that_stands_still_is_named_and_keeps_nobody_waiting(self):
        launchers, names = self.two()
        for silent in (1, 0):  # that one hosts the coordinator
            launchers[silent].send(signal.SIGSTOP)
            status = self.status(names[1 - silent])
            launchers[silent].send(signal.SIGCONT)
            self.assertEqual([(one["state"], one["why"]) for one in status["nodes"] if one["node"] == silent],
                             [("unknown", "it did not answer within 2 s")])
            self.assertEqual([one["node"] for one in status["ranks"]], [1 - silent] * 2)
            self.await_jobs(lambda: len(self.status(names[0])["ranks"]) == 4)
        self.end(launchers)

    def test_many_that_ask_at_one_time_are_all_told(self):
        launchers, names = self.two("--heartbeat", 60)
        launchers[1].send(signal.SIGSTOP)
        callers = [self.ctl("status", "--json", names[0]) for _ in range(40)]
        self.assertEqual([caller.wait() for caller in callers], [0] * len(callers), [caller.err() for caller in callers])
        launchers[1].send(signal.SIGCONT)
        for caller in callers:
            status = json.loads(caller.out())
            self.assertEqual([one["rank"] for one in status["ranks"]], [0, 1])
            self.assertIn(status["nodes"][1]["why"], ("it did not answer within 2 s", "it has yet to answer what it was asked before"))
        self.await_jobs(lambda: len(self.status(names[0])["ranks"]) == 4)
        self.end(launchers)

    def printing(self, *flags, **options):
        """Two nodes with a secret, which print the lines that come to a pipe of each rank."""
        pipes = [os.path.join(self.runtime, f"pipe{rank}") for rank in range(4)]
        for pipe in pipes:
            os.mkfifo(pipe)
        launchers, names = self.two(*flags, words=("sh", "-c", f"echo begin of $RANK; cat {self.runtime}/pipe$RANK"), **options)
        writers = [open(pipe, "w", encoding="ascii", buffering=1) for pipe in pipes]
        for writer in writers:
            self.addCleanup(writer.close)
        return launchers, names, writers

    def test_any_node_shows_what_all_have_printed(self):
        launchers, names, writers = self.printing(secret=SECRET)
        for name in names:
            self.await_jobs(lambda name=name: self.run_ctl("logs", name)[1].count("begin") == 4)
            self.assertEqual(sorted(self.run_ctl("logs", name)[1].splitlines()), [f"[{rank}] begin of {rank}" for rank in range(4)])
            for rank in range(4):
                self.assertEqual(self.run_ctl("logs", "--rank", rank, name), (0, f"begin of {rank}", ""))
            self.assertEqual(self.run_ctl("logs", "--rank", 4, name), (2, "", "ddpctl: --rank 4: the job has 4 ranks"))
        followers = [self.ctl("logs", "-f", names[0]), self.ctl("logs", "-f", "--rank", 3, names[0]), self.ctl("attach", names[1])]
        for number in range(20):
            for rank, writer in enumerate(writers):
                writer.write(f"line {number} of {rank}\n")
            followers[0].wait_for_line(rf"^\[\d\] line {number} of \d$", count=4)
            followers[1].wait_for_line(f"^line {number} of 3$")
        followers[2].wait_for_line(r"line 19 of", count=4)
        lines = [line for line in followers[0].out().splitlines() if "line" in line]
        self.assertEqual(sorted(lines), sorted(set(lines)))
        last = self.run_ctl("logs", "--tail", 4, names[1])[1].splitlines()
        # Lines of one moment lie in one block, which has one time.
        self.assertEqual([bool(re.fullmatch(r"\[\d\] line 1\d of \d", line)) for line in last], [True] * 4, last)
        for writer in writers:
            writer.close()
        self.assertEqual([one.wait() for one in (*launchers, *followers)], [0] * 5)

    def test_any_node_shows_what_has_happened_on_all(self):
        launchers, names = self.two(secret=SECRET)
        for name in names:
            text = self.await_jobs(lambda name=name: (said := self.run_ctl("events", name)[1]).count("round.started") == 2 and said)
            times = [line[:23] for line in text.splitlines()]
            self.assertEqual(times, sorted(times))
            for node in (0, 1):
                self.assertRegex(text, rf"(?m)  node {node}  round\.started")
        lines = [json.loads(line) for line in self.run_ctl("events", "--json", names[1])[1].splitlines()]
        self.assertEqual({line["metadata"]["launcher_pid"] for line in lines if line["name"] == "ddprun.round.started"},
                         {one.process.pid for one in launchers})
        follower = self.ctl("events", "-f", names[1])
        follower.wait_for_line(r"  node 0  round\.started")
        launchers[0].send(signal.SIGTERM)
        follower.wait_for_line(r"  node 0  signal")
        self.assertEqual([one.wait() for one in (*launchers, follower)], [143, 143, 0])

    def test_without_a_secret_a_line_says_what_helps(self):
        launchers, names, writers = self.printing()
        why = "without a secret of the job the other nodes tell their status only; ddprun --make-secret makes one for DDPRUN_SECRET_FILE"
        self.await_jobs(lambda: self.run_ctl("logs", names[1])[1].count("begin") == 2)
        code, out, err = self.run_ctl("logs", names[1])
        self.assertEqual((code, sorted(out.splitlines()), err), (0, ["[2] begin of 2", "[3] begin of 3"], f"ddpctl: {why}"))
        self.assertEqual(self.run_ctl("logs", "--rank", 0, names[1]), (2, "", f"ddpctl: --rank 0: {why}"))
        self.assertEqual(self.run_ctl("logs", "--rank", 2, names[1]), (0, "begin of 2", ""))
        code, out, err = self.run_ctl("events", names[1])
        self.assertEqual((code, err), (0, f"ddpctl: {why}"))
        self.assertNotIn("  node 0  ", out)
        for writer in writers:
            writer.close()
        self.assertEqual([one.wait() for one in launchers], [0, 0])

    def test_a_node_that_stands_still_is_named_while_the_others_are_followed(self):
        launchers, names, writers = self.printing("--heartbeat", 60, secret=SECRET)
        follower = self.ctl("logs", "-f", names[0])
        follower.wait_for_line("begin of", count=4)
        launchers[1].send(signal.SIGSTOP)
        follower.wait_for_line(r"^ddpctl: node 1 \(\S+\): it did not answer within 5 s$")
        writers[0].write("meanwhile\n")
        follower.wait_for_line(r"^\[0\] meanwhile$")
        code, out, err = self.run_ctl("logs", names[0])
        self.assertEqual((code, sorted(out.splitlines())), (0, ["[0] begin of 0", "[0] meanwhile", "[1] begin of 1"]))
        self.assertRegex(err, r"^ddpctl: node 1( \(\S+\))?: it (did not answer within 2 s|has yet to answer what it was asked before)$")
        writers[3].write("while it stood still\n")
        launchers[1].send(signal.SIGCONT)
        follower.wait_for_line(r"^\[3\] while it stood still$")
        for writer in writers:
            writer.close()
        self.assertEqual([one.wait() for one in (*launchers, follower)], [0] * 3)
        self.assertEqual(follower.out().count("while it stood still"), 1)

    def test_a_node_that_dies_is_named_and_comes_back_with_the_next_round(self):
        port = support.free_port()
        def start(node):
            return self.launch("--nnodes", "2", "--max-restarts", 3, "--min-uptime", 0, "--node-rank", node, "--rdzv-backend", "c10d", "--last-call", 60,
                               "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-conf", f"is_host={int(node == 0)}",
                               "sh", "-c", f"echo round $TORCHELASTIC_RESTART_COUNT of $RANK; exec {support.program('worker_stub')} ready-then-wait",
                               env={"DDPRUN_SECRET": SECRET})
        launchers = [start(0), start(1)]
        names = self.await_jobs(lambda: len(self.folders()) == 2 and not self.folders()[0].startswith(".") and self.folders())
        name = {self.status(name)["job"]["node_rank"]: name for name in names}[0]
        followers = [self.ctl("logs", "-f", name), self.ctl("logs", "-f", "--rank", 1, name)]
        followers[0].wait_for_line(r"round 0 of", count=2)
        followers[1].wait_for_line("^round 0 of 1$")
        launchers[1].send(signal.SIGKILL)
        launchers[1].wait()
        launchers[1] = start(1)
        followers[0].wait_for_line(r"round 1 of", count=2)
        followers[1].wait_for_line("^round 1 of 1$")
        followers[0].wait_for_line(r"^ddpctl: node 1 \(\S+\): ")
        for one in launchers:
            one.send(signal.SIGTERM)
        self.assertEqual([one.wait() for one in (*launchers, *followers)], [143, 143, 0, 0])

    def test_those_that_follow_keep_nobody_else_from_an_answer(self):
        launchers, names, writers = self.printing(secret=SECRET)
        self.await_jobs(lambda: self.run_ctl("logs", names[0])[1].count("begin") == 4)
        ways = [("logs", "-f"), ("logs", "-f", "--rank", 2), ("logs", "-f", "--rank", 3), ("events", "-f")] * 8
        followers = [self.ctl(*way, names[0]) for way in ways]
        for follower in followers:
            follower.wait_for_line("begin of|round.started")
        for _ in range(10):
            self.assertEqual([one["state"] for one in self.status(names[0])["nodes"]], ["running"] * 2)
            self.assertEqual(self.run_ctl("logs", names[0])[1].count("begin"), 4)
        for writer in writers:
            writer.close()
        self.assertEqual([one.wait() for one in (*launchers, *followers)], [0] * (2 + len(followers)))

    def test_the_list_has_the_numbers_of_the_round(self):
        port = support.free_port()
        launchers = [self.launch("--nnodes", "1:2", "--max-restarts", 3, "--min-uptime", 0, "--node-rank", node, "--master-addr", "127.0.0.1",
                                 "--master-port", port, *worker("ready-then-wait")) for node in (0, 1)]
        names = self.await_jobs(lambda: len(self.folders()) == 2 and not self.folders()[0].startswith(".") and self.folders())
        numbers = lambda: sorted(line.split()[2] for line in self.run_ctl("list")[1].splitlines()[1:])
        self.assertEqual(numbers(), ["0/2", "1/2"])
        launchers[0].send(signal.SIGTERM)
        self.assertEqual(launchers[0].wait(), 143)
        self.await_jobs(lambda: numbers() == ["0/1"])
        launchers[1].send(signal.SIGTERM)
        launchers[1].wait()
        self.assertEqual((len(names), self.folders()), (2, []))

    def test_a_client_that_does_not_read_holds_nothing_up(self):
        launchers, names = self.two(words=("sh", "-c", f"echo ready; while [ ! -e {self.go} ]; do echo 0123456789012345678901234567890123456789; done"), secret=SECRET)
        stuck = self.ctl("logs", "-f", names[0])
        stuck.wait_for_line("0123")
        stuck.send(signal.SIGSTOP)
        for name in names:
            self.assertEqual(len(self.status(name)["ranks"]), 4)
            self.assertEqual(self.run_ctl("logs", "--rank", 2, "--tail", 1, name)[:2], (0, "0123456789012345678901234567890123456789"))
        self.let_go()
        self.assertEqual([one.wait() for one in launchers], [0, 0])
        stuck.send(signal.SIGKILL)
        stuck.wait()

    def end(self, launchers):
        launchers[0].send(signal.SIGTERM)
        self.assertEqual([one.wait() for one in launchers], [143, 143])
        self.assertEqual(self.folders(), [])


if __name__ == "__main__":
    support.main()
