"""Requests to stop that come close together: a Ctrl-C that arrives twice is one, a later one is impatience."""

import os
import signal
import tempfile
import time

from support import EndToEndTest, ShellTest, free_port, main, program

PREEMPTED = 75

# Saves when Ctrl-C comes, for as long as it is not told to go on.
SAVES = """if True:
    import os, sys, time
    folder = sys.argv[1]
    try:
        print("ready", flush=True)
        while True: time.sleep(1)  # until the event that is tried; one that comes as Python begins to sleep is seen after it
    except KeyboardInterrupt:
        print("saving", flush=True)
        # What the test does with files is no event here.
        while not os.path.exists(folder + "/go"): time.sleep(0.01)
        open(folder + "/saved" + os.environ["RANK"], "w").close()
    """
# Passes a Ctrl-C on, as uv, npm and make do, which the terminal has given to both; a moment later, as two signals that wait
# to be taken are one.
PASSES_ON = """if True:
    import signal, subprocess, sys, time
    child = subprocess.Popen(sys.argv[1:])
    def pass_on(*_):
        time.sleep(0.02)  # that another process has taken a signal is no event here
        child.send_signal(signal.SIGINT)
        print("passed on", flush=True)
    signal.signal(signal.SIGINT, pass_on)
    child.wait()
    print("code", child.returncode)
    """
STOPPING = "ddprun: stopping 2 ranks by SIGINT, up to 3600 s (--grace); Ctrl-C again in a second or later ends "


class Twice(EndToEndTest):
    """Two requests to stop that come close together are one."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def words(self, *words):
        return ("--grace", 3600, *words, "--no-python", "python3", "-c", SAVES, self.folder)

    def go(self):
        open(os.path.join(self.folder, "go"), "w", encoding="ascii").close()

    def take_saved(self):
        """Which ranks have saved; and as if none had."""
        files = sorted(os.listdir(self.folder))
        for name in files:
            os.unlink(os.path.join(self.folder, name))
        return [name for name in files if name != "go"]

    def begin(self, *words):
        job = self.launch(*self.words("--nproc-per-node", 2, *words))
        job.wait_for_line("^ready$", count=2)
        return job

    def end(self, job, saving=2):
        job.wait_for_line("^saving$", count=saving)
        job.wait_until_idle()
        self.go()
        return job.wait()

    def test_a_ctrl_c_that_is_passed_on_costs_no_checkpoint(self):
        for pause in (0.0005, 0.02, 0.2):
            with self.subTest(pause=pause):
                job = self.begin()
                job.send(signal.SIGINT)
                time.sleep(pause)  # no event: how far apart they are is what is tried
                job.send(signal.SIGINT)
                self.assertEqual((self.end(job), self.take_saved()), (PREEMPTED, ["saved0", "saved1"]), job.err())
                self.assertEqual(job.seen["err"].count(STOPPING + "it now"), 1, job.err())

    def test_other_signals_after_it_change_nothing(self):
        job = self.begin()
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGTERM):
            job.send(number)
            job.wait_until_idle()
        self.assertEqual((self.end(job), self.take_saved()), (PREEMPTED, ["saved0", "saved1"]), job.err())
        self.assertEqual(job.err().count("ddprun: stopping "), 1, job.err())
        self.assertIn("was stopped by SIGINT", job.err())

    def test_a_later_one_is_impatience(self):
        job = self.begin()
        job.send(signal.SIGINT)
        job.wait_for_line("^saving$", count=2)
        job.interrupt_until_gone()
        self.assertEqual((job.wait(), self.take_saved()), (130, []), job.err())

    def agents(self, nodes=2):
        port = free_port()
        agents = [self.launch("--nnodes", nodes, "--node-rank", rank, "--master-addr", "127.0.0.1", "--master-port", port,
                              *self.words()) for rank in range(nodes)]
        for agent in agents:
            agent.wait_for_line("^ready$")
        return agents

    def test_the_word_of_another_node_and_a_signal_of_ones_own(self):
        agents = self.agents()
        agents[0].send(signal.SIGINT)
        agents[1].wait_for_line("^saving$")
        agents[1].send(signal.SIGINT)
        agents[1].wait_for_line("stopping 2 ranks")
        self.assertEqual([self.end(agents[0], 1), agents[1].wait()], [PREEMPTED] * 2, agents[0].err())
        self.assertEqual(self.take_saved(), ["saved0", "saved1"])
        for agent in agents:
            self.assertIn(STOPPING + "this node's part now", agent.seen["err"])

    def test_a_node_that_was_sent_nothing_says_nothing_at_once(self):
        agents = self.agents()
        agents[1].send(signal.SIGTERM)
        for agent in agents:
            self.assertEqual(agent.wait(), 143)
        self.assertNotIn("stopping", agents[0].err())
        self.assertIn("ddprun: stopping 2 ranks by SIGTERM, up to 3600 s (--grace)", agents[1].seen["err"])

    def test_nothing_is_said_where_quiet_is_wanted(self):
        job = self.begin("--quiet")
        job.send(signal.SIGINT)
        self.end(job)
        self.assertNotIn("stopping", job.err())


class Keyboard(ShellTest):
    def test_ctrl_c_that_another_program_passes_on_costs_no_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            passes_on, saves = (os.path.join(folder, name) for name in ("passes_on.py", "saves.py"))
            for name, text in ((passes_on, PASSES_ON), (saves, SAVES)):
                with open(name, "w", encoding="ascii") as file:
                    file.write(text)
            self.shell.type(f"python3 {passes_on} {program('ddprun')} --grace 3600 --nproc-per-node 2 {saves} {folder}\n".encode())
            self.shell.expect(r"(?:ready$[\s\S]*?){2}")
            self.shell.type(b"\x03")
            self.shell.expect(r"(?=(?:[\s\S]*saving$){2})(?=[\s\S]*passed on$)")
            open(os.path.join(folder, "go"), "w", encoding="ascii").close()
            self.shell.expect(f"^code {PREEMPTED}$")
            self.assertTrue({"saved0", "saved1"} <= set(os.listdir(folder)))


if __name__ == "__main__":
    main()
