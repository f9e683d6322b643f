"""--hosts by ssh itself: a real sshd on loopback, with keys and a configuration of its own."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import process_tree
import support
from support import processes_of_job, worker

HERE = ("--master-addr", "127.0.0.1")


class StartBySsh(support.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.sshd = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
        if self.sshd is None or shutil.which("ssh") is None:
            self.skipTest("skipped: no sshd or no ssh here (scripts/setup.sh --for test)")
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for key in ("host_key", "own_key", "other_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(key)], check=True)
        shutil.copy(self.path("own_key.pub"), self.path("authorized_keys"))
        self.port = support.free_port()
        self.write_configurations()
        self.start_sshd()
        # The first ssh on everybody's PATH reads our configuration.
        self.write("ssh", f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.path("config")} "$@"\n')
        os.chmod(self.path("ssh"), 0o700)
        self.environment["PATH"] = self.folder + ":" + self.environment["PATH"]

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def write_configurations(self):
        mark, value = self.marker.split("=")
        self.write("sshd_config", f"""ListenAddress 127.0.0.1:{self.port}
HostKey {self.path("host_key")}
PidFile none
AuthorizedKeysFile {self.path("authorized_keys")}
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 200
SetEnv {mark}="{value}" PATH="{self.folder}:/usr/bin:/bin"
""")
        with open(self.path("host_key.pub"), encoding="ascii") as key:
            self.write("known_hosts", f"known {key.read()}")
        self.write("config", f"""Host locked
    IdentityFile {self.path("other_key")}
Host stranger
    HostKeyAlias stranger
Host * !locked
    IdentityFile {self.path("own_key")}
Host *
    HostName 127.0.0.1
    Port {self.port}
    User {getpass.getuser()}
    IdentitiesOnly yes
    IdentityAgent none
    HostKeyAlias known
    UserKnownHostsFile {self.path("known_hosts")}
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking ask
""")

    def start_sshd(self):
        log = open(self.path("log"), "wb")
        self.addCleanup(log.close)
        server = subprocess.Popen([self.sshd, "-D", "-e", "-f", self.path("sshd_config")], stderr=log)
        self.addCleanup(lambda: (server.terminate(), server.wait()))
        for _ in range(1000):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            try:
                server.wait(timeout=0.02)
                break
            except subprocess.TimeoutExpired:
                continue
        with open(self.path("log"), encoding="utf-8") as said:
            self.fail(f"no sshd: {said.read()}")

    def test_one_job_runs_on_hosts_that_are_reached_by_others(self):
        code, out, err = self.run_job("--hosts", "n[1-5]:2", "--fan-out", "2", *HERE, "bash", "-c",
                                      'echo "$RANK of $WORLD_SIZE ${SSH_CONNECTION:+by ssh}"')
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sorted(out.splitlines()), sorted(f"{rank} of 10 by ssh" for rank in range(10)))

    def test_a_killed_starter_leaves_nothing(self):
        for number in (signal.SIGKILL, signal.SIGINT):
            job = self.launch("--hosts", "n[1-5]", "--fan-out", "2", *HERE, *worker("setsid-grandchild", "ready-then-wait"))
            job.wait_for_line("^ready$", count=5)
            job.send(number)
            self.assertEqual(job.wait(), -9 if number == signal.SIGKILL else 130)
            deadline = 1000
            while processes_of_job(self.marker) and deadline > 0:
                deadline -= 1
                signal.sigtimedwait([], 0.02)  # Their ends are no events for us.
            self.assertEqual(processes_of_job(self.marker), [])

    def test_a_connection_that_breaks_is_told_and_the_job_goes_on(self):
        go = self.path("go")
        job = self.launch("--hosts", "n1,n2", *HERE, *worker("say", "here", "wait-for-file", go, "say", "done"))
        job.wait_for_line("^here$", count=2)
        shells = [pid for pid, (parent, name, _) in process_tree.process_table().items()
                  if parent == job.pid and name == "ssh"]
        with_n2 = []
        for pid in shells:
            with open(f"/proc/{pid}/cmdline", "rb") as words:
                with_n2 += [pid] if b"n2" in words.read().split(b"\0") else []
        self.assertEqual((len(shells), len(with_n2)), (2, 1))
        os.kill(with_n2[0], signal.SIGKILL)
        job.wait_for_line("ddprun: n2: ssh signal 9 .SIGKILL.; what its agent says is not shown any more")
        self.write("go", "")
        self.assertEqual((job.wait(), job.out().count("done")), (0, 1), job.err())

    def test_a_key_that_is_not_let_in_and_a_host_that_is_not_known(self):
        code, out, err = self.run_job("--hosts", "n1,locked,stranger", *HERE, *worker("say", "never"))
        self.assertEqual((code, out), (71, ""), err)
        self.assertRegex(err, r"ddprun: locked: ssh exit 255: .*Permission denied \(publickey\).* \(ssh is not let ask for a password")
        self.assertRegex(err, r"ddprun: stranger: ssh exit 255: Host key verification failed\. .*ssh-keyscan")
        self.assertIn("2 of 3 hosts could not be started", err)


if __name__ == "__main__":
    support.main()
