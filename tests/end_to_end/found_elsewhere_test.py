"""What people complain about with other launchers, tried on this one: programs, files and addresses as other tools leave them,
and what is said where they cannot be used."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import support
from support import EndToEndTest, free_port, processes_of_job, program

UNREACHED = 69


class FoundElsewhere(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)

    def file(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(path, mode)
        return path


class Programs(FoundElsewhere):
    PYTHON = "import os\nprint('rank', os.environ['RANK'])\n"

    def on_path(self):
        return {"PATH": self.folder + os.pathsep + support.BIN + os.pathsep + os.environ["PATH"]}

    def test_a_script_whose_first_line_names_this_launcher_is_for_python(self):
        link = os.path.join(self.folder, "my-launcher")
        os.symlink(program("ddprun"), link)
        for line in ("#!/usr/bin/env -S ddprun --nproc-per-node=2", "#!/usr/bin/env ddprun",
                     f"#!{program('ddprun')} --nproc-per-node=2", f"#!{link}", "#!/usr/bin/env -S A=B torchrun",
                     "#!/usr/bin/env -S python3 -m torch.distributed.run", "#!/usr/bin/env -S uv run ddprun"):
            with self.subTest(line):
                job = self.file("job", f"{line}\n{self.PYTHON}", 0o755)
                for name in (job, "job"):
                    code, out, err = self.run_job("--nproc-per-node=2", "-q", name, env=self.on_path())
                    self.assertEqual((code, sorted(out.splitlines())), (0, ["rank 0", "rank 1"]), err)
        self.file("job", f"#!/usr/bin/env -S ddprun --nproc-per-node=2\n{self.PYTHON}", 0o755)
        code, out, err = self.run_job("--no-python", "--nproc-per-node=1", self.folder + "/job", env=self.on_path())
        self.assertEqual((code, out, err.count("\n")), (2, "", 0))
        self.assertIn("would start itself", err)

    def test_a_script_that_starts_itself_by_the_launcher_is_refused(self):
        job = self.file("job", f"#!/bin/sh\nexec {program('ddprun')} --nproc-per-node=1 $0\n", 0o755)
        code, _, err = self.run_job("--nproc-per-node=1", job)
        self.assertNotEqual(code, 0)
        self.assertIn("starts the launcher again, without end", err)

    def test_the_word_python_by_chance_makes_no_python(self):
        folder = os.path.join(self.folder, "python-tools")
        os.mkdir(folder)
        job = self.file("job", f"#!{folder}/julia\nprintln(1)\n")
        code, _, err = self.run_job("--nproc-per-node=1", job)
        self.assertEqual(code, 126, err)
        self.assertIn("not executable", err)

    def test_an_interpreter_that_is_not_there_is_named(self):
        job = self.file("job", "#!/no/such/\x1b[31mshell -e\n", 0o755)
        code, _, err = self.run_job("--nproc-per-node=1", job)
        self.assertEqual(code, 126)
        self.assertIn("its interpreter /no/such/shell, which its first line names: no such file", err)
        self.assertNotIn("\x1b", err)

    def test_a_carriage_return_in_the_first_line_is_said_before_any_worker(self):
        for line in ("#!/bin/bash", "#!/usr/bin/env bash", "#! /bin/bash"):
            with self.subTest(line):
                job = self.file("job", f"{line}\r\necho x\r\n", 0o755)
                code, out, err = self.run_job("--nproc-per-node=2", job)
                self.assertEqual((code, out, err.count("\n")), (126, "", 0), err)
                self.assertRegex(err, "its first line names '(/bin/)?bash' and a carriage return")
                self.assertIn("as lines of Windows do", err)
        job = self.file("job", "#!/usr/bin/env python3\r\nimport os\r\nprint('rank', os.environ['RANK'])\r\n", 0o755)
        code, out, err = self.run_job("--nproc-per-node=1", "-q", job)
        self.assertEqual((code, out), (0, "rank 0"), err)

    def test_a_program_that_may_not_be_executed_says_what_is_to_be_changed(self):
        code, _, err = self.run_job("--nproc-per-node=1", self.file("plain", "#!/bin/sh\n"))
        self.assertEqual(code, 126)
        self.assertIn("chmod +x", err)


class Survivors(FoundElsewhere):
    NOBODY = 65534

    def test_a_process_that_may_not_be_signalled_is_counted_and_not_waited_for(self):
        if os.geteuid() != 0:
            self.skipTest("skipped: needs root, to make a program setuid")
        os.chmod(self.folder, 0o755)
        starter, up = os.path.join(self.folder, "starter"), os.path.join(self.folder, "up")
        shutil.copyfile(os.path.realpath(sys.executable), starter)
        os.chmod(starter, 0o4755)
        os.mkfifo(up, 0o666)
        os.chmod(up, 0o666)
        code = ("import os, signal, sys\ntry: os.setuid(0)\nexcept OSError: sys.exit(print('nosuid', flush=True))\n"
                f"open('{up}', 'w').close()\nsignal.pause()")
        script = f'test "$RANK" = 0 && exec {starter} -c "{code}"; read line <{up}; exit 1'
        began = time.monotonic()
        code, out, err = self.run_job("--nproc-per-node=2", "--grace=1", "sh", "-c", script, env={"HOME": "/"},
                                      prefix=("setpriv", f"--reuid={self.NOBODY}", f"--regid={self.NOBODY}", "--clear-groups"))
        if "nosuid" in out:
            self.skipTest("skipped: the folder for temporary files takes no setuid programs")
        took = time.monotonic() - began
        for left in processes_of_job(self.marker):
            os.kill(left, signal.SIGKILL)
        self.assertEqual(code, 1, err)
        self.assertLess(took, 14, "kKillTimeout was waited for")
        self.assertRegex(err, r"rank 0, pid \d+ \(starter, state [SR][^)]*, of uid 0\), belongs to another user")
        self.assertRegex(err, r"survivors: 1: pid \d+ \(starter, state [SR][^)]*, of uid 0\)")


class Jobs(FoundElsewhere):
    def test_a_detached_job_is_found_by_every_shell_and_after_logout(self):
        session = os.path.join(self.folder, "session")
        os.mkdir(session)
        shared = os.path.join(self.folder, "shared")
        os.mkdir(shared)
        os.chmod(shared, 0o1777)
        # A /tmp of its own, so that the jobs of whoever runs the test are none of its business.
        tmp = ("unshare", "-m", "sh", "-c", f'mount --bind {shared} /tmp && exec "$0" "$@"')
        if subprocess.run([*tmp[:4], f"mount --bind {shared} /tmp"], capture_output=True, check=False).returncode:
            self.skipTest("skipped: no mount namespaces here")
        if self.folder.startswith("/tmp/") and support.BIN.startswith("/tmp/"):
            self.skipTest("skipped: the programs are in /tmp")
        status, job, err = self.run_job("--detach", "sleep", "300", prefix=tmp, env={"XDG_RUNTIME_DIR": session})
        self.assertEqual((status, err), (0, ""))
        shutil.rmtree(session)
        for environment in ({}, {"XDG_RUNTIME_DIR": session}):
            code, out, err = self.run_job("status", job, name="ddpctl", prefix=tmp, env=environment)
            self.assertEqual(code, 0, err)
            self.assertIn("running", out)
            os.mkdir(session)
            shutil.rmtree(session)
        code, _, err = self.run_job("kill", "--signal", "KILL", job, name="ddpctl", prefix=tmp)
        self.assertEqual(code, 0, err)


    def test_a_log_folder_that_goes_with_the_session_is_said(self):
        for words in (("--detach",), ()):
            code, _, err = self.run_job(*words, "--dry-run", "--log-dir=/run/user/7/logs", "true")
            self.assertEqual((code, "goes away with your last session" in err), (0, bool(words)), err)


class Files(FoundElsewhere):
    # As editors and shells of other systems write a text.
    FORMS = {
        "mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
        "carriage returns": lambda text: text.replace("\n", "\r\n").encode(),
        "both": lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
        "UTF-16": lambda text: text.replace("\n", "\r\n").encode("utf-16"),
        "blanks": lambda text: text.replace("\n", " \t\n").replace(" ", "\xa0").encode(),
    }

    def test_a_configuration(self):
        for name, form in self.FORMS.items():
            with self.subTest(name):
                config = self.file("config", form("# ours\nnproc_per_node = 2\nquiet = true\n"))
                code, out, err = self.run_job("--config", config, "sh", "-c", "echo $RANK")
                self.assertEqual((code, sorted(out.split()), err), (0, ["0", "1"], ""))

    def test_a_host_file_and_an_order_of_ranks(self):
        for name, form in self.FORMS.items():
            with self.subTest(name):
                hosts = self.file("hosts", form("# ours\nlocalhost slots=2\n"))
                code, out, err = self.run_job("--hostfile", hosts, "-q", "sh", "-c", "echo $RANK")
                self.assertEqual((code, sorted(out.split()), err), (0, ["0", "1"], ""))
                order = self.file("order", form(f"# ours\n{socket.gethostname()}\n"))
                code, _, err = self.run_job("--rank-order", order, "--nproc-per-node=1", "true")
                self.assertEqual((code, err), (0, ""))

    def test_variables_of_a_file_with_carriage_returns(self):
        code, out, err = self.run_job("sh", "-c", "echo $RANK",
                                      env={"DDPRUN_NPROC_PER_NODE": "2\r", "DDPRUN_QUIET": "1\r"})
        self.assertEqual((code, sorted(out.split()), err), (0, ["0", "1"], ""))
        port = free_port()
        code, out, err = self.run_job("--nproc-per-node=1", "-q", "true", env={
            "WORLD_SIZE": "1\r", "RANK": "0\r", "MASTER_ADDR": "127.0.0.1\r", "MASTER_PORT": f"{port}\r"})
        self.assertEqual((code, err), (0, ""))


class Addresses(FoundElsewhere):
    SHOW = ("sh", "-c", "echo $MASTER_ADDR")

    def test_all_addresses_on_one_node(self):
        for address in ("0.0.0.0", "::", "[::]"):
            for words, environment in (((f"--master-addr={address}",), {}), ((), {"MASTER_ADDR": address}),
                                       ((f"--local-addr={address}",), {})):
                with self.subTest(address=address, words=words):
                    code, out, err = self.run_job("--nnodes=1", *words, "--nproc-per-node=1", *self.SHOW, env=environment)
                    self.assertEqual((code, out), (0, "127.0.0.1"), err)

    def test_all_addresses_on_node_0_of_two(self):
        port = free_port()
        flags = ("--nnodes=2", f"--master-port={port}", "--nproc-per-node=1", "-q")
        first = self.launch(*flags, "--node-rank=0", "--master-addr=0.0.0.0", *self.SHOW)
        code, out, err = self.run_job(*flags, "--node-rank=1", "--master-addr=127.0.0.1", *self.SHOW)
        self.assertEqual((code, first.wait()), (0, 0), err + first.err())
        for said in (out, first.out()):
            self.assertNotIn(said.strip(), ("0.0.0.0", "::", ""))

    def test_on_another_node_it_is_refused(self):
        for words in (("--node-rank=1",), ("--rdzv-backend=c10d", "--rdzv-id=x", "--rdzv-endpoint=0.0.0.0:29400")):
            code, out, err = self.run_job("--nnodes=2", *words, "--master-addr=0.0.0.0", "--nproc-per-node=1", "true")
            self.assertEqual((code, out, err.count("\n")), (2, "", 0), err)
            self.assertIn("0.0.0.0: stands for all addresses of node 0, and there alone", err)


class SilentNameServer(EndToEndTest):
    """A name server that never answers: what waits for it ends at its own time."""

    SERVER = "127.0.0.9"

    def setUp(self):
        super().setUp()
        tried = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"skipped: no mount namespaces here: {tried.stderr.strip()}")
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(server.close)
        try:
            server.bind((self.SERVER, 53))
        except OSError as error:
            self.skipTest(f"skipped: no name server at {self.SERVER}: {error}")
        file = tempfile.NamedTemporaryFile("w", encoding="ascii")
        self.addCleanup(file.close)
        # The system's resolver waits for longer than a test's hang guard.
        file.write(f"nameserver {self.SERVER}\noptions timeout:30 attempts:5\n")
        file.flush()
        script = f'mount --bind {file.name} {os.path.realpath("/etc/resolv.conf")}; exec "$0" "$@"'
        self.prefix = ("unshare", "-m", "sh", "-c", script)

    def test_a_join_ends_by_its_own_time(self):
        for number in (0, 1):
            code, _, err = self.run_job("--nnodes=2", f"--node-rank={number}", "--master-addr=gpu01.cluster",
                                        "--master-port", free_port(), "--join-timeout=1", "true", prefix=self.prefix)
            self.assertEqual(code, UNREACHED, err)
            self.assertIn("--join-timeout", err)
        self.assertIn("cannot resolve gpu01.cluster: its name server has not answered within", err)


if __name__ == "__main__":
    support.main()
