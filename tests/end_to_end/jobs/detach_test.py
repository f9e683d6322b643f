"""Detached jobs: ddprun --detach lets the shell go once the workers run; ddpctl lists, follows and ends them."""

import errno
import json
import os
import pty
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from job_folders import JobsTest, is_alive
from support import free_port, program, worker

NOBODY = 65534


class Starting(JobsTest):
    def test_it_returns_while_the_workers_run(self):
        job = self.start("--nproc-per-node", 2, *worker("wait-for-file", self.go))
        self.assertRegex(job, r"^worker_stub-[0-9a-f]{4}$")
        self.assertEqual(self.folders(), [job])
        for path in (self.jobs, os.path.join(self.jobs, job)):
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o700)
        status = self.status(job)
        self.assertEqual(status["state"], "running")
        self.assertEqual([entry["rank"] for entry in status["ranks"]], [0, 1])
        for entry in status["ranks"]:
            self.assertTrue(is_alive(entry["pid"]))
        [listed] = json.loads(self.run_ctl("list", "--json")[1])
        self.assertEqual({name: listed[name] for name in status}, {**status, "nodes": 1})
        self.assertEqual((listed["launcher_pid"], listed["world_size"], listed["verdict_kind"]), (status["job"]["pid"], 2, None))
        self.assertLess(listed["age_s"], support.HANG_GUARD)
        code, out, _ = self.run_ctl("list")
        self.assertEqual(code, 0)
        self.assertRegex(out.splitlines()[1], rf"^{job} +running +0/1 +2 +\d+s +\S*worker_stub$")
        self.let_go()
        self.assertEqual(self.run_ctl("attach", job)[0], 0)
        status = self.status(job)
        self.assertEqual((status["state"], status["exit_code"]), ("ended", 0))
        self.assertEqual(status["result"]["outcome"], "succeeded")
        self.assertRegex(self.run_ctl("list")[1].splitlines()[1], rf"^{job} +ended, exit code 0 ")
        self.assertRegex(self.run_ctl("status", job[:9])[1], r"workers +rank 0 \(local rank 0\), pid \d+: exit code 0")

    def test_the_launcher_has_no_terminal_and_its_streams_are_the_file(self):
        job = self.start(*worker("ready-then-wait"))
        launcher = self.status(job)["job"]["pid"]
        with open(f"/proc/{launcher}/stat", encoding="ascii", errors="replace") as file:
            words = file.read().rpartition(")")[2].split()
        self.assertEqual((int(words[3]), int(words[4])), (launcher, 0), "its own session, no terminal")
        targets = [os.readlink(f"/proc/{launcher}/fd/{number}") for number in range(3)]
        output = os.path.join(self.jobs, job, "output")
        self.assertEqual(targets, ["/dev/null", output.replace(self.runtime, os.path.realpath(self.runtime))] + targets[2:])
        self.assertEqual(targets[1], targets[2])

    def test_what_the_starting_script_has_open_is_not_the_jobs(self):
        lock = os.path.join(self.runtime, "lock")
        script = 'exec 9>"$1" && flock -n 9 && shift && exec 7</dev/zero && exec "$@"'
        words = [program("ddprun"), "--detach", "--nproc-per-node", "2", *worker("wait-for-file", self.go)]
        done = subprocess.run(["bash", "-c", script, "bash", lock, *words], env=self.environment, capture_output=True,
                              text=True, timeout=support.HANG_GUARD)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        launcher = self.status(job)["job"]["pid"]
        targets = [os.readlink(f"/proc/{launcher}/fd/{number}") for number in os.listdir(f"/proc/{launcher}/fd")]
        self.assertNotIn("/dev/zero", targets)
        subprocess.run(["flock", "-n", lock, "true"], check=True, timeout=support.HANG_GUARD)
        self.let_go()
        self.assertEqual(self.run_ctl("attach", job)[0], 0)

    def test_it_survives_the_end_of_the_terminal(self):
        pid, master = pty.fork()
        if pid == 0:
            os.execvpe("sh", ["sh", "-c", '"$0" --detach "$@"; exec sleep 1000', program("ddprun"), "--nproc-per-node",
                              "2", *worker("say", "ready", "wait-for-file", self.go)], self.environment)
        with os.fdopen(master, "rb", buffering=0) as terminal:
            job = terminal.read(100).decode().strip()
        # The terminal is gone now; its session leader gets SIGHUP and ends by it.
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), -signal.SIGHUP)
        self.assertEqual(self.status(job)["state"], "running")
        self.let_go()
        self.assertEqual(self.run_ctl("attach", job)[0], 0)

    def test_while_it_waits_for_other_nodes_it_says_so_and_takes_signals(self):
        flags = ("--detach", "--nnodes=2", "--node-rank=0", "--master-addr=127.0.0.1", "--master-port", free_port())
        for number in (signal.SIGINT, signal.SIGTERM):
            starter = self.launch(*flags, "true")
            starter.wait_for_line("^ddprun: joined 1/2, missing node 1; ")
            starter.send(number)
            self.assertEqual(starter.wait(), 128 + number)
            self.assertEqual(starter.out(), "")
            self.assertEqual(self.folders(), [])

    def test_nodes_on_one_machine_are_told_apart(self):
        flags = ("--detach", "--nnodes=2", "--master-addr=127.0.0.1", "--master-port", free_port())
        starters = [self.launch(*flags, "--node-rank", rank, *worker("ready-then-wait")) for rank in (0, 1)]
        self.assertEqual([starter.wait() for starter in starters], [0, 0])
        ids = [starter.out() for starter in starters]
        # One name on all nodes; on one machine the second one gets a number.
        self.assertEqual(sorted(ids), [min(ids), min(ids) + "-2"])
        code, out, err = self.run_ctl("kill", min(ids)[:-2])
        self.assertEqual((code, out), (2, ""))
        self.assertIn("several", err)
        self.assertEqual(self.run_ctl("kill", ids[1])[0], 0)
        # One job: its end is the end of both.
        self.assertEqual([self.run_ctl("attach", job)[0] for job in ids], [143, 143])

    def test_a_starter_that_is_killed_leaves_a_job_that_can_be_found(self):
        flags = ("--nnodes=2", "--master-addr=127.0.0.1", "--master-port", free_port())
        starter = self.launch("--detach", *flags, "--node-rank=0", *worker("ready-then-wait"))
        starter.wait_for_line("^ddprun: joined 1/2, missing node 1; ")
        starter.send(signal.SIGKILL)
        starter.wait()
        other = self.launch(*flags, "--node-rank=1", *worker("ready-then-wait"))
        other.wait_for_line("^ready$")
        self.assertEqual(self.run_ctl("kill", self.await_jobs(self.detached)[0])[0], 0)
        self.assertEqual(other.wait(), 143)

    def test_what_is_said_once_the_workers_run_is_not_the_starters_to_show(self):
        flags = ("--nnodes=2", "--master-addr=127.0.0.1", "--max-restarts=1", "--master-port", free_port())
        script = f'[ "$TORCHELASTIC_RESTART_COUNT" = 1 ] || exit 5; echo again; while [ ! -e {self.go} ]; do sleep 0.01; done'
        starter = self.launch("--detach", *flags, "--node-rank=0", "sh", "-c", script)
        starter.wait_for_line("^ddprun: joined 1/2, missing node 1; ")
        starter.send(signal.SIGSTOP)
        other = self.launch(*flags, "--node-rank=1", "sh", "-c", script)
        other.wait_for_line("restart 1 of 1$")
        other.wait_for_line("^again$")
        # Node 0 has said the same by now, where its starter will find it.
        job, = self.detached()
        self.ctl("logs", "-f", job).wait_for_line("^again$")
        starter.send(signal.SIGCONT)
        self.assertEqual((starter.wait(), starter.out()), (0, job))
        self.assertRegex(starter.err_and_waiting(), r"\Addprun: joined 1/2, missing node 1; .*\(--join-timeout\)\Z")
        self.let_go()
        self.assertEqual((other.wait(), self.run_ctl("attach", job)[0]), (0, 0))

    def test_odd_programs_become_names(self):
        job = self.start("--rdzv-id", "../a b/" + "x" * 300, "true")
        self.assertEqual(self.folders(), [job])
        self.assertRegex(job, r"^true-[0-9a-f]{4}$")
        odd = os.path.join(self.runtime, "-a b\x1b" + "x" * 100)
        os.symlink("/bin/true", odd)
        self.assertRegex(self.start(odd), r"^_a_b_x{14}-[0-9a-f]{4}$")


class FailedStarts(JobsTest):
    def refused(self, code, words, *arguments, **options):
        got, out, err = self.run_job("--detach", *arguments, **options)
        self.assertEqual((got, out), (code, ""), err)
        for word in words:
            self.assertIn(word, err)
        self.assertEqual(self.folders(), [])

    def test_the_cause_and_the_code_are_the_launchers(self):
        self.refused(127, ["./no-such-program: no such file"], "./no-such-program")
        self.refused(2, ["--no-such-flag"], "--no-such-flag", "true")
        self.refused(2, ["--detach", "--tty"], "--tty", 0, "true")
        self.refused(69, ["missing node 1", "--join-timeout"], "--nnodes=2", "--master-addr=127.0.0.1", "--master-port",
                     free_port(), "--rdzv-conf", "join_timeout=1", "true")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.refused(71, [str(taken.getsockname()[1]), str(os.getpid())], "--master-port", taken.getsockname()[1],
                         "true")

    def test_a_launcher_that_is_killed_before_is_reported(self):
        starter = self.launch("--detach", "--nnodes=2", "--master-addr=127.0.0.1", "--master-port", free_port(), "true")
        starter.wait_for_line("^ddprun: joined 1/2")
        with open(f"/proc/{starter.pid}/task/{starter.pid}/children", encoding="ascii") as children:
            os.kill(int(children.read().split()[0]), signal.SIGKILL)
        self.assertEqual(starter.wait(), 137)
        self.assertIn("signal 9 (SIGKILL) before the workers ran", starter.err())
        self.assertEqual(self.folders(), [])

    def test_a_folder_that_others_may_use_is_refused(self):
        os.mkdir(self.jobs)
        os.chmod(self.jobs, 0o755)
        self.refused(71, [self.jobs, "permissions"], "true")
        self.assertEqual(self.run_ctl("list")[0], 71)
        os.rmdir(self.jobs)
        os.symlink(self.runtime, self.jobs)
        code, _, err = self.run_job("--detach", "true")
        self.assertEqual(code, 71)
        self.assertIn("symbolic link", err)
        self.assertEqual(os.listdir(self.runtime), ["ddprun"])


class Control(JobsTest):
    def test_logs_are_what_was_printed_in_order(self):
        job = self.start(*worker("say", "one", "say", "two", "say", "three", "wait-for-file", self.go, "complain", "four"))
        follower = self.ctl("logs", "--follow", job)
        follower.wait_for_line("^three$")
        self.assertEqual(self.run_ctl("logs", job), (0, "one\ntwo\nthree", ""))
        self.assertEqual(self.run_ctl("logs", "--tail", 2, job), (0, "two\nthree", ""))
        self.let_go()
        self.assertEqual(follower.wait(), 0)
        self.assertEqual(follower.out(), "one\ntwo\nthree\nfour")
        self.assertEqual(self.run_ctl("logs", "-f", "--tail", 1, job), (0, "four", ""))

    def test_much_output_is_followed_without_loss(self):
        job = self.start("sh", "-c", f"while [ ! -e {self.go} ]; do sleep 0.01; done; seq 200000")
        follower = self.ctl("logs", "-f", job)
        self.let_go()
        self.assertEqual(follower.wait(), 0)
        self.assertEqual(follower.seen["out"], [str(number) for number in range(1, 200001)])
        self.assertEqual(self.run_ctl("logs", "--tail", 150000, job)[1].split("\n", 1)[0], "50001")

    def test_attach_ends_with_the_jobs_code(self):
        job = self.start(*worker("say", "begin", "wait-for-file", self.go, "exit", 42))
        attached = self.ctl("attach", job)
        attached.wait_for_line("^begin$")
        self.let_go()
        self.assertEqual(attached.wait(), 42)
        self.assertIn("exiting with code 42", attached.out())
        self.assertEqual(self.run_ctl("attach", job)[0], 42)

    def test_what_comes_after_the_output_was_cut_is_followed(self):
        job = self.start(*worker("say", "a line that is longer than the next", "wait-for-file", self.go, "say", "next"))
        attach = self.ctl("attach", job)
        attach.wait_for_line("^a line that is longer")
        os.truncate(os.path.join(self.jobs, job, "output"), 0)
        self.let_go()
        self.assertEqual(attach.wait(), 0)
        self.assertEqual(attach.out().splitlines()[-1], "next")

    def test_an_interrupt_of_attach_leaves_the_job_running(self):
        job = self.start(*worker("ready-then-wait"))
        attached = self.ctl("attach", job)
        attached.wait_for_line("^ready$")
        attached.send(signal.SIGINT)
        self.assertEqual(attached.wait(), 130)
        self.assertIn(f"job {job} goes on", attached.err())
        self.assertEqual(self.status(job)["state"], "running")

    def test_kill_is_a_signal_to_the_launcher(self):
        for flags, mode, arguments, code in (((), "exit-zero-on-term", (), 75), ((), "ready-then-wait", (), 143),
                                             (("--grace", 1), "ignore-term", (), 143),
                                             ((), "ready-then-wait", ("--signal", "SIGINT"), 130)):
            job = self.start(*flags, *worker(mode))
            follower = self.ctl("logs", "-f", job)
            follower.wait_for_line("^ready$")
            self.assertEqual(self.run_ctl("kill", *arguments, job), (0, f"{job}: ended, exit code {code}", ""))
            self.assertEqual(follower.wait(), 0)
            self.assertIn("survivors: 0", follower.out())
            self.assertEqual(self.run_ctl("kill", job), (0, f"{job}: ended, exit code {code}", ""))

    def test_kill_need_not_wait(self):
        job = self.start("--grace", 3600, *worker("save-on-term", self.go))
        follower = self.ctl("logs", "-f", job)
        follower.wait_for_line("^ready$")
        self.assertEqual(self.run_ctl("kill", "--no-wait", job), (0, "", ""))
        # It says meanwhile how long that may take.
        self.await_jobs(lambda: re.search(r"(?m)^phase +stopping, up to 3[56]\d\d s more \(--grace\)$", self.run_ctl("status", job)[1]))
        self.let_go()
        follower.wait_for_line("^saved$")
        self.assertEqual(self.run_ctl("attach", job)[0], 75)

    def test_only_signals_that_the_launcher_takes_are_sent(self):
        job = self.start("--forward", "USR1", *worker("print-signals"))
        follower = self.ctl("logs", "-f", job)
        follower.wait_for_line("^ready$")
        code, _, err = self.run_ctl("kill", "--signal", "USR2", job)
        self.assertEqual(code, 2)
        self.assertIn("--forward", err)
        self.assertEqual(self.run_ctl("kill", "--signal", "USR1", job), (0, "", ""))
        follower.wait_for_line("SIGUSR1")
        self.assertEqual(self.run_ctl("kill", "--signal", "NONSENSE", job)[0], 2)
        self.assertEqual(self.status(job)["state"], "running")

    def test_a_launcher_that_was_killed_is_lost(self):
        job = self.start(*worker("ready-then-wait"))
        follower = self.ctl("logs", "-f", job)
        follower.wait_for_line("^ready$")
        os.kill(self.status(job)["job"]["pid"], signal.SIGKILL)
        self.assertEqual((follower.wait(), follower.err()), (69, f"ddpctl: job {job} is lost: its launcher ended without a result"))
        self.assertEqual(self.run_ctl("logs", job), (0, "ready", ""))
        self.assertEqual(self.run_ctl("logs", "-f", job)[:2], (69, "ready"))
        self.assertEqual(self.status(job)["state"], "lost")
        self.assertRegex(self.run_ctl("list")[1].splitlines()[1], rf"^{job} +lost ")
        self.assertRegex(self.run_ctl("status", job)[1], r"(?m)^lost +after its last output at \d{4}-")
        code, out, err = self.run_ctl("attach", job)
        self.assertEqual((code, out), (69, "ready"))
        self.assertIn("lost", err)
        self.assertEqual(self.run_ctl("kill", job), (0, f"{job}: lost", ""))

    def test_restarts_are_counted(self):
        script = f'[ "$TORCHELASTIC_RESTART_COUNT" = 1 ] || exit 5; echo again; while [ ! -e {self.go} ]; do sleep 0.01; done'
        job = self.start("--max-restarts", 2, "sh", "-c", script)
        self.ctl("logs", "-f", job).wait_for_line("^again$")
        status = self.status(job)
        self.assertEqual((status["restarts"], status["max_restarts"], status["round"]), (1, 2, 1))
        self.let_go()
        self.assertEqual(self.run_ctl("attach", job)[0], 0)

    def test_wrong_ids_and_wrong_commands_are_one_line(self):
        for arguments in (("status", "x"), ("logs", ""), (), ("nonsense",), ("kill",), ("logs", "--tail", "-1", "x")):
            code, out, err = self.run_ctl(*arguments)
            self.assertEqual((code, out, len(err.splitlines())), (2, "", 1), err)
        self.assertEqual(self.run_ctl("stauts", "x"), (2, "", "ddpctl: stauts: no such command; did you mean status?"))
        job = self.start("true")
        code, _, err = self.run_ctl("logs", "x")
        self.assertEqual(code, 2)
        self.assertIn(job, err)

    def test_only_the_newest_ended_jobs_are_kept(self):
        for _ in range(24):
            newest = self.start("true")
            self.run_ctl("attach", newest)
        self.assertIn(newest, self.folders())
        self.assertLessEqual(len(self.folders()), 22)
        self.assertGreaterEqual(len(self.folders()), 20)


class Cleaned(JobsTest):
    def wait_until(self, is_done):
        deadline = time.monotonic() + support.HANG_GUARD
        while not is_done():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)  # What other processes do is no event for us.

    def ids(self):
        return [entry["job"]["id"] for entry in json.loads(self.run_ctl("list", "--json")[1])]

    def test_a_folder_that_was_removed_is_made_anew(self):
        for removed in ("{jobs}/{job}", "{jobs}", *("{jobs}/{job}/" + name for name in ("control", "job.json", "output", ".result"))):
            with self.subTest(removed):
                job = self.start(*worker("say", "before", "wait-for-file", self.go, "say", "behind"))
                self.wait_until(lambda: self.run_ctl("logs", job)[1] == "before")
                follower = subprocess.Popen([program("ddpctl"), "logs", "--follow", job], env=self.environment, stdout=subprocess.PIPE, text=True)
                self.assertEqual(follower.stdout.readline(), "before\n")
                subprocess.run(["rm", "-rf", removed.format(jobs=self.jobs, job=job)], check=True)
                said = os.path.join(self.jobs, job, "output")
                self.wait_until(lambda: os.path.exists(said) and "made anew" in self.run_ctl("logs", job)[1])
                self.assertEqual((self.ids(), self.status(job)["state"]), ([job], "running"))
                self.let_go()
                self.assertEqual(self.run_ctl("attach", job)[0], 0)
                text = self.run_ctl("logs", job)[1]
                self.assertRegex(text, rf"(?s)^before\nddprun: something has removed '{self.jobs}/{job}', .* made anew\nbehind$")
                with follower:
                    self.assertEqual("before\n" + follower.stdout.read().strip(), text)
                self.assertEqual(self.status(job)["state"], "ended")
                os.remove(self.go)
                shutil.rmtree(self.jobs)

    def test_of_much_output_the_end_is_kept(self):
        kept = 16 << 20
        script = f"yes 0123456789abcde | head -c {kept}; echo; echo last; cat {self.go}"
        os.mkfifo(self.go)
        job = self.start("--log-dir=/dev/null", "sh", "-c", script)
        said = os.path.join(self.jobs, job, "output")
        self.wait_until(lambda: os.path.getsize(said) == kept + len("\nlast\n"))
        os.remove(said)
        self.wait_until(lambda: os.path.exists(said) and "made anew" in self.run_ctl("logs", job)[1])
        text = self.run_ctl("logs", job)[1]
        self.assertIn("\nlast\nddprun: something has removed", text)
        self.assertIn("; of its output the first 6 bytes are lost", text)
        self.assertEqual(text.index("\nddprun: something has removed") + 1, kept)
        self.let_go()
        self.assertEqual(self.run_ctl("attach", job)[0], 0)

    def test_a_folder_that_is_somebody_elses_is_not_taken(self):
        job = self.start(*worker("wait-for-file", self.go))
        launcher = self.status(job)["job"]["pid"]
        with open(f"/proc/{launcher}/fd/1", encoding="utf-8") as output:
            gone = os.path.join(self.runtime, "gone")
            os.rename(self.jobs, gone)
            os.symlink("/tmp", self.jobs)
            shutil.rmtree(gone)  # which the launcher hears of
            self.wait_until(lambda: f"(process {launcher}): " in output.read())
        os.remove(self.jobs)
        self.let_go()
        self.wait_until(lambda: not is_alive(launcher))

    @unittest.skipUnless(shutil.which("systemd-tmpfiles"), "systemd-tmpfiles is not installed")
    def test_a_cleaner_of_old_files_leaves_it(self):
        job = self.start(*worker("wait-for-file", self.go))
        old = os.path.join(self.jobs, "old")
        open(old, "w", encoding="ascii").close()
        rules = os.path.join(self.runtime, "rules.conf")
        with open(rules, "w", encoding="ascii") as file:
            file.write(f"e {self.jobs} - - - 2s\n")
        self.wait_until(lambda: subprocess.run(["systemd-tmpfiles", "--clean", rules], check=True) and not os.path.exists(old))
        self.assertEqual(self.status(job)["state"], "running")
        self.let_go()
        self.assertEqual(self.run_ctl("attach", job)[0], 0)


class OtherUsers(JobsTest):
    def connect_as_nobody(self, path):
        """The errno, or 0."""
        pid = os.fork()
        if pid == 0:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            with socket.socket(socket.AF_UNIX) as client:
                os._exit(client.connect_ex(path))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def test_another_user_is_refused(self):
        if os.geteuid() != 0:
            self.skipTest("skipped: needs root, to be somebody else")
        os.chmod(self.runtime, 0o755)
        job = self.start(*worker("ready-then-wait"))
        stranger = dict(user=NOBODY, group=NOBODY, extra_groups=[], env=self.environment, capture_output=True, text=True,
                        check=False, timeout=support.HANG_GUARD)
        self.assertEqual(self.connect_as_nobody(os.path.join(self.jobs, job, "control")), errno.EACCES)
        if subprocess.run([program("ddpctl"), "--version"], **stranger).returncode != 0:
            self.skipTest("skipped: nobody may not run ddpctl where it was built")
        done = subprocess.run([program("ddpctl"), "kill", job], **stranger)
        self.assertEqual(done.returncode, 71)
        self.assertIn("it belongs to uid", done.stderr)
        self.assertEqual(self.status(job)["state"], "running")


@unittest.skipIf("DDPRUN_SANITIZED" in os.environ, "skipped: trains for long, and sanitizers see each program elsewhere")
class Readme(JobsTest):
    ROOT = os.path.abspath(__file__).rsplit("/tests/", 1)[0]

    def commands(self, page, section):
        """The section's blocks of shell commands, with the programs under test."""
        with open(os.path.join(self.ROOT, page), encoding="utf-8") as file:
            text = re.search(rf"^## {section}$(.*?)^## ", file.read(), re.M | re.S)[1]
        return [block.replace("build/bin/", os.path.join(support.BIN, "")) for block in re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)]

    def shell(self, script):
        return subprocess.run(["bash", "-euxo", "pipefail", "-c", script], cwd=self.ROOT, env=self.environment, text=True,
                              capture_output=True, timeout=support.HANG_GUARD * 5, check=False)

    def test_the_commands_of_the_readme_work(self):
        page = "apps/ddpctl/README.md"
        done = self.shell("\n".join(self.commands(page, "Jobs that run on without the shell")))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("running", done.stdout)
        self.assertRegex(done.stdout, r"ended, exit code 143")
        self.assertIn("ddprun:   survivors: 0", done.stdout)
        done = self.shell("\n".join(self.commands(page, "Jobs in the foreground")))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^train_digits-[0-9a-f]{4}: ended$")


if __name__ == "__main__":
    support.main()
