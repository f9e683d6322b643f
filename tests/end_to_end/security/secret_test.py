"""Jobs with a secret: who takes part, what others hear of it, and where the secret is not found."""

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from support import EndToEndTest, Launcher, free_port, program

NOT_ADMITTED = 77
UNAVAILABLE = 69
USAGE = 2
SECRET = f"a-secret-for-tests-{os.getpid():010}"  # no other test's, which run beside this one
RUN_ID = "a-job-nobody-may-know-of"


class Relay:
    """A man in the middle who only listens: everything that an agent and node 0 say to each other."""

    def __init__(self, target):
        self.target = target
        self.heard = bytearray()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                caller, _ = self.listener.accept()
            except OSError:
                return
            try:
                host = socket.create_connection(("127.0.0.1", self.target), timeout=support.HANG_GUARD)
            except OSError:
                caller.close()
                continue
            for source, sink in ((caller, host), (host, caller)):
                threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    def _copy(self, source, sink):
        try:
            while data := source.recv(65536):
                self.heard += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # The other direction has ended the connection.

    def close(self):
        self.listener.close()


class SecretTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory(prefix="ddprun_secret_")
        self.addCleanup(self.folder.cleanup)
        self.port = free_port()

    def agent(self, rank, *words, port=None, **variables):
        environment = {**os.environ, "XDG_CONFIG_HOME": self.folder.name, **variables}
        launcher = Launcher(["--nnodes=2", f"--node-rank={rank}", "--master-addr=127.0.0.1",
                             f"--master-port={port or self.port}", f"--rdzv-id={RUN_ID}", *words],
                            env=environment)
        self.addCleanup(launcher.process.kill)
        return launcher

    def file(self, text=SECRET, mode=0o600):
        path = os.path.join(self.folder.name, "given")
        with open(path, "w", encoding="ascii") as file:
            file.write(text + "\n")
        os.chmod(path, mode)
        return path

    def end(self, launcher):
        launcher.send(signal.SIGTERM)
        launcher.wait()

    def heard_of(self, **variables):
        """What a listener hears of a job whose agents have these variables."""
        relay = Relay(self.port)
        self.addCleanup(relay.close)
        command = ["sh", "-c", "echo rank $RANK of $WORLD_SIZE", "a-command-nobody-may-know-of"]
        host = self.agent(0, *command, **variables)
        other = self.agent(1, *command, port=relay.port, **variables)
        self.assertEqual((host.wait(), other.wait()), (0, 0), host.err() + other.err())
        self.assertEqual(other.out(), "rank 1 of 2")
        self.assertGreater(len(relay.heard), 500)
        return bytes(relay.heard)

    def test_what_is_wrong_is_said_with_the_place_that_says_it(self):
        nothing = os.path.join(self.folder.name, "nothing")
        config = os.path.join(self.folder.name, "config.toml")
        with open(config, "w", encoding="ascii") as file:
            file.write(f'secret-file = "{nothing}"\n')
        for words, variables, place in (((), {"DDPRUN_SECRET_FILE": nothing}, " (from DDPRUN_SECRET_FILE)"),
                                        (("--config", config), {}, f" (from {config}:1)"),
                                        (("--secret-file", nothing), {}, "")):
            launcher = self.agent(0, *words, "true", **variables)
            self.assertEqual((launcher.wait(), launcher.err()),
                             (2, f"ddprun: --secret-file {nothing}: No such file or directory{place}"))
        for name, flag in (("RESULT_FILE", "--result-file"), ("LOG_DIR", "--log-dir"), ("LOG_FILE", "--log-file"),
                           ("EVENTS", "--events"), ("ON_FAILURE", "--on-failure")):
            launcher = self.agent(0, "true", **{f"DDPRUN_{name}": "/proc/none/x"})
            self.assertEqual(launcher.wait(), 2)
            self.assertRegex(launcher.err(), rf"^ddprun: {flag} .* \(from DDPRUN_{name}\)$")

    def test_who_listens_hears_neither_the_job_nor_its_nodes(self):
        # A name of few letters alone may stand in any noise.
        tell_tales = [RUN_ID, f'"host":"{socket.gethostname()}"', "command", "hello", "run_id", "round_ready"]
        clear = self.heard_of()
        for text in tell_tales:
            self.assertIn(text.encode(), clear)
        sealed = self.heard_of(DDPRUN_SECRET=SECRET)
        self.assertTrue(sealed.startswith(b"DDPSa"))
        for text in [*tell_tales, SECRET]:
            self.assertNotIn(text.encode(), sealed)

    def test_another_secret_or_another_id_is_not_admitted(self):
        host = self.agent(0, "true", DDPRUN_SECRET=SECRET)
        other = self.agent(1, "true", DDPRUN_SECRET=SECRET + "x")
        self.assertEqual(other.wait(), NOT_ADMITTED)
        self.assertIn(" says that it has another secret, or another --rdzv-id, and has not proven to be node 0", other.err())
        host.wait_for_line("an agent at 127.0.0.1 was turned away: it has another secret")
        of_another_job = self.agent(1, "--rdzv-id=other", "true", DDPRUN_SECRET=SECRET)
        self.assertEqual(of_another_job.wait(), NOT_ADMITTED)
        self.assertNotIn(RUN_ID, of_another_job.err())
        # None of them was in the way of one that has it; the user heard of them once.
        right = self.agent(1, "true", DDPRUN_SECRET=SECRET)
        self.assertEqual((host.wait(), right.wait()), (0, 0))
        self.assertEqual(host.err().count("was turned away"), 1)

    def test_a_secret_on_one_side_only_is_said_on_both(self):
        host = self.agent(0, "true", DDPRUN_SECRET=SECRET)
        without = self.agent(1, "true")
        self.assertEqual(without.wait(), NOT_ADMITTED)
        self.assertIn("node 0 asks for the job's secret: set DDPRUN_SECRET_FILE", without.err())
        host.wait_for_line("was turned away: it has no secret, and this node has one")
        self.end(host)
        host = self.agent(0, "--listen=any", "true")
        host.wait_for_line("no secret: whoever reaches this node's port .* ddprun --make-secret makes one")
        with_one = self.agent(1, "true", DDPRUN_SECRET=SECRET)
        self.assertEqual(with_one.wait(), NOT_ADMITTED)
        self.assertIn(" says that it has no secret, and has not proven to be node 0", with_one.err())
        host.wait_for_line("was turned away: it has a secret, and this node has none")
        content = self.agent(1, "--auth=off", "true", DDPRUN_SECRET=SECRET)
        self.assertEqual((host.wait(), content.wait()), (0, 0))

    def test_the_secret_is_nowhere_else(self):
        result = os.path.join(self.folder.name, "result.json")
        words = ["--verbose", f"--log-file={self.folder.name}/log", f"--result-file={result}", "sh", "-c",
                 "env; echo ready; sleep 1000"]
        host = self.agent(0, *words, DDPRUN_SECRET=SECRET)
        other = self.agent(1, "--verbose", "sh", "-c", "env; echo ready; sleep 1000",
                           DDPRUN_SECRET_FILE=self.file())
        for launcher in (host, other):
            launcher.wait_for_line("^ready$")
        self.assertEqual(support.processes_of_job(SECRET), [])
        self.assertNotIn("DDPRUN_SECRET", host.out() + other.out())
        self.end(host)
        other.wait()
        self.assertNotIn(SECRET, host.err() + other.err())
        for name in ("log", "result.json"):
            with open(os.path.join(self.folder.name, name), encoding="utf-8") as file:
                self.assertNotIn(SECRET, file.read())

    def test_a_detached_job_keeps_no_secret(self):
        environment = {"XDG_CONFIG_HOME": self.folder.name, "DDPRUN_JOBS_DIR": self.folder.name, "DDPRUN_SECRET": SECRET}
        # It says its id, and goes, when the job has begun.
        command = ["sh", "-c", "env; cat /proc/$PPID/environ"]
        host = self.agent(0, "--detach", *command, **environment)
        other = self.agent(1, *command, DDPRUN_SECRET=SECRET)
        self.assertEqual((host.wait(), other.wait()), (0, 0), host.err() + other.err())
        attached = subprocess.run([program("ddpctl"), "attach", host.out()], env={**os.environ, **environment},
                                  capture_output=True, text=True, check=False)
        self.assertEqual(attached.returncode, 0, attached.stderr)
        texts = [host.err(), attached.stdout, attached.stderr]
        for path, _, names in os.walk(self.folder.name):
            for name in filter(lambda name: os.path.isfile(os.path.join(path, name)), names):
                with open(os.path.join(path, name), encoding="utf-8", errors="replace") as file:
                    texts.append(file.read())
        self.assertIn("RANK=0", "".join(texts))
        self.assertIn("job.json", [name for _, _, names in os.walk(self.folder.name) for name in names])
        self.assertNotIn(SECRET, "".join(texts))

    @unittest.skipUnless(os.geteuid() == 0, "not root, so /etc cannot be another one")
    def test_the_sites_file_makes_it_stricter_and_never_less(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        etc = ("unshare", "-m", "sh", "-c", f'mount --bind {folder} /etc && exec "$@"', "sh")
        if subprocess.run([*etc, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no mount namespaces here")

        of_two = ("--nnodes=2", "--node-rank=0", "--master-addr=127.0.0.1", f"--master-port={self.port}", "--join-timeout=1")

        def code_and_words(site, *words, nodes=of_two, **variables):
            with open(os.path.join(folder, "ddprun.conf"), "w", encoding="ascii") as file:
                file.write(site + "\n")
            environment = {**os.environ, "XDG_CONFIG_HOME": self.folder.name, **variables}
            done = subprocess.run([*etc, program("ddprun"), *nodes, *words, "true"], env=environment, capture_output=True, text=True,
                                  check=False)
            return done.returncode, done.stderr

        for words in ((), ("--auth=auto",)):
            code, said = code_and_words("auth = required", *words)
            self.assertEqual((code, "no secret is known here" in said), (USAGE, True), said)
        code, said = code_and_words("auth = required", "--auth=off", DDPRUN_SECRET=SECRET)
        self.assertEqual((code, "/etc/ddprun.conf says auth = required" in said), (USAGE, True), said)
        for site, words, part in (("store = door", ("--store=direct",), "--store direct: /etc/ddprun.conf says store = door"),
                                  ("store = door", (), "/etc/ddprun.conf says store = door: agents need a secret"),
                                  ("store = door", ("--auth=off",), "says store = door: agents need a secret")):
            code, said = code_and_words(site, *words)
            self.assertEqual((code, part in said), (USAGE, True), said)
        code, said = code_and_words("rsh = ssh,srun", "--hosts=192.0.2.1,192.0.2.2", "--rsh=/tmp/sh", nodes=())
        self.assertEqual((code, "--rsh /tmp/sh: /etc/ddprun.conf says rsh = ssh,srun" in said), (USAGE, True), said)
        made = os.path.join(self.folder.name, "ddprun", "secret")
        os.makedirs(os.path.dirname(made), mode=0o700)
        with open(os.open(made, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write(SECRET)
        for words in ((), (f"--secret-file={made}",)):
            code, said = code_and_words("key = job", *words)
            self.assertEqual((code, "says key = job" in said and made in said), (USAGE, True), said)
        for site in ("key = auto", "key = job\nstore = door"):
            variables = {"DDPRUN_SECRET": SECRET} if "job" in site else {}
            self.assertEqual(code_and_words(site, **variables)[0], UNAVAILABLE)
        os.remove(made)
        code, said = code_and_words("auth = off")
        self.assertEqual((code, "/etc/ddprun.conf, line 1" in said), (USAGE, True), said)
        # With a secret it waits for the other node, which does not come.
        self.assertEqual(code_and_words("auth = required", DDPRUN_SECRET=SECRET)[0], UNAVAILABLE)

    def test_a_secret_that_was_made_is_found_by_all_nodes_of_this_user(self):
        made = subprocess.run([program("ddprun"), "--make-secret"], capture_output=True, text=True, check=True,
                              env={**os.environ, "XDG_CONFIG_HOME": self.folder.name})
        path = made.stdout.strip()
        self.assertEqual(path, os.path.join(self.folder.name, "ddprun", "secret"))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        again = subprocess.run([program("ddprun"), "--make-secret"], capture_output=True, text=True, check=False,
                               env={**os.environ, "XDG_CONFIG_HOME": self.folder.name})
        self.assertEqual(again.returncode, USAGE)
        self.assertIn("is there already, and is kept", again.stderr)
        agents = [self.agent(rank, "--auth=required", "true") for rank in (0, 1)]
        self.assertEqual([agent.wait() for agent in agents], [0, 0])
        self.assertNotIn("no secret", agents[0].err())

    def test_what_cannot_be_taken_is_one_line(self):
        for words, variables, text in (
                (["--auth=required"], {}, "--auth required: no secret is known here"),
                ([f"--secret-file={self.file(mode=0o644)}"], {}, "is open to others .mode 0644.; chmod 600"),
                (["--secret-file=/does/not/exist"], {}, "--secret-file /does/not/exist: No such file"),
                ([], {"DDPRUN_SECRET": "brief-one"}, "DDPRUN_SECRET: the secret is shorter than 22 characters")):
            agent = self.agent(0, *words, "true", **variables)
            self.assertEqual(agent.wait(), USAGE)
            self.assertRegex(agent.err(), text)
            self.assertEqual(len(agent.err().splitlines()), 1)
            self.assertNotIn("brief-one", agent.err())

    def test_the_secret_may_come_from_stdin(self):
        agents = []
        for rank in (0, 1):
            agents.append(subprocess.Popen(
                [program("ddprun"), "--nnodes=2", f"--node-rank={rank}", "--master-addr=127.0.0.1",
                 f"--master-port={self.port}", "--auth=required", "--secret-file=-", "true"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        for agent in agents:
            agent.stdin.write(SECRET + "\n")
            agent.stdin.flush()
        for agent in agents:
            self.addCleanup(agent.kill)
            output, _ = agent.communicate(timeout=support.HANG_GUARD)
            self.assertEqual(agent.returncode, 0, output)


if __name__ == "__main__":
    support.main()
