"""Jobs in the foreground: ddpctl lists, shows and ends them, too, and nothing is left of them."""

import json
import os
import signal
import stat
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from job_folders import JobsTest, is_alive
from support import worker


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
        code, out, err = self.run_ctl("attach", job)
        self.assertEqual((code, out), (71, ""))
        self.assertRegex(err, f"^ddpctl: job {job} was not started with --detach: [^\n]*$")
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
                         (2, f"ddpctl: --rank 2: job {job} has no such rank on this node; see ddpctl status {job}"))
        follower = self.ctl("logs", "--follow", "--tail", "1", "--rank", "0", job)
        follower.wait_for_line("^ready$|^trouble of 0$")
        self.let_go()
        follower.wait_for_line("^end of 0$")
        self.assertEqual((follower.wait(), launcher.wait()), (0, 0))

    def test_its_events_are_shown(self):
        launcher, job = self.running("--max-restarts", "1", "sh", "-c", 'echo ready; [ "$TORCHELASTIC_RESTART_COUNT" = 1 ] || exit 5; '
                                     f"while [ ! -e {self.go} ]; do sleep 0.01; done")
        text = self.await_jobs(lambda: (said := self.run_ctl("events", job)[1]).count("round.started") == 2 and said)
        self.assertRegex(text, r"(?m)^\d{4}-.* [+-]\d{4}  worker\.ended  round=0  rank=0 .*exit_code=5")
        lines = [json.loads(line) for line in self.run_ctl("events", "--json", job)[1].splitlines()]
        self.assertIn("ddprun.round.ready", [line["name"] for line in lines])
        self.let_go()
        self.assertEqual(launcher.wait(), 0)

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

    def two(self, *flags):
        port = support.free_port()
        launchers = [self.launch("--nnodes", 2, "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port,
                                 "--nproc-per-node", 2, *flags, *worker("ready-then-wait")) for node in (0, 1)]
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

    def end(self, launchers):
        launchers[0].send(signal.SIGTERM)
        self.assertEqual([one.wait() for one in launchers], [143, 143])
        self.assertEqual(self.folders(), [])


if __name__ == "__main__":
    support.main()
