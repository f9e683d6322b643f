"""`ddprun doctor` and --check on nodes that lack something, each in namespaces of its own."""

import contextlib
import ctypes
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from doctor_support import PROBLEM, SYSTEM, USAGE, DoctorTest, do
from node_network import isolate
from support import program, worker


@contextlib.contextmanager
def silent_folder():
    """A folder whose file server never answers: FUSE without anybody at its other end."""
    server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    try:
        with tempfile.TemporaryDirectory() as folder:
            libc = ctypes.CDLL(None, use_errno=True)
            options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
            if libc.mount(b"fuse", folder.encode(), b"fuse", 0, options) != 0:
                raise OSError(ctypes.get_errno(), "no FUSE")
            try:
                yield folder
            finally:
                libc.umount2(folder.encode(), 2)  # MNT_DETACH: it is not asked
    finally:
        os.close(server)


def why_no_silent_folder():
    try:
        with silent_folder():
            return None
    except OSError as error:
        return f"no FUSE can be mounted here: {error}"


class Doctor(DoctorTest):
    def setUp(self):
        super().setUp()
        self.undo = contextlib.ExitStack()
        self.addCleanup(self.undo.close)
        self.folder = self.undo.enter_context(tempfile.TemporaryDirectory())

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def mount(self, words, place):
        do(f"mount {words} {place}")
        self.undo.callback(do, f"umount {place}")

    def examine(self, *words, **options):
        """The exit code and the findings, by topic and by what they are about."""
        code, out, err = self.run_job("doctor", "--json", *words, **options)
        self.assertEqual(err, "")
        report = json.loads(out)
        findings = {(one["topic"], one["about"]): one for one in report["findings"]}
        states = [one["state"] for one in findings.values()]
        worst = max(states, key=("ok", "warning", "problem").index)
        self.assertEqual(report["state"], worst)
        self.assertEqual(code, PROBLEM if worst == "problem" else 0)
        return findings

    def assert_found(self, finding, state, *texts):
        self.assertEqual(finding["state"], state, finding)
        for text in texts:
            self.assertIn(text, f"{finding['text']}; {finding['remedy']}")

    def assert_check_refuses(self, *texts, job=(), code=SYSTEM, **options):
        ended, out, err = self.run_job("--check", *job, *worker("exit", "0"), **options)
        self.assertEqual((ended, out), (code, ""), err)
        self.assertEqual(len(err.splitlines()), 1, err)
        for text in ("--check: ", *texts):
            self.assertIn(text, err)

    def test_this_node(self):
        findings = self.examine()
        code, out, err = self.run_job("doctor")
        self.assertEqual(err, "")
        lines = out.splitlines()
        self.assertEqual(len(lines), len(findings))
        for line, finding in zip(lines, findings.values()):
            self.assertRegex(line, rf"^{finding['state']} +{finding['topic']}\b.*: ")
        self.assertEqual(code, PROBLEM if "problem" in out else 0, out)
        self.assert_found(findings["version", ""], "ok", "ddprun ")
        for topic in ("clock", "host_name", "addresses", "gpus", "driver", "cpus", "memory", "shared_memory", "open_files",
                      "locked_memory", "processes", "core_files", "python", "pytorch", "proc", "proxy"):
            self.assertIn((topic, ""), findings)
        for topic, about in (("port", "29500"), ("port", "29400"), ("folder", "/tmp"), ("folder", os.getcwd())):
            self.assertEqual(findings[topic, about]["state"] == "ok", findings[topic, about]["remedy"] == "")

    def test_words(self):
        self.assertIn("--json", self.run_job("doctor", "--help")[1])
        for words in (("--hosts",), ("program",), ("--json=maybe",)):
            code, out, err = self.run_job("doctor", *words)
            self.assertEqual((code, out), (USAGE, ""), err)
        for contrary in ("--dry-run", "--adapt"):
            code, out, err = self.run_job("--check", contrary, *worker("exit", "0"))
            self.assertEqual((code, out), (USAGE, ""), err)
            self.assertIn(f"contradicts {contrary}", err)

    def test_a_program_that_is_called_doctor(self):
        doctor = self.write("doctor", "#!/bin/sh\necho here is the program\n", 0o755)
        path = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        for words in (("./doctor",), ("--", "doctor"), ("--nproc-per-node=1", "doctor"), (doctor,)):
            self.assertEqual(self.run_job(*words, cwd=self.folder, env=path)[:2], (0, "here is the program"), words)
        # In torchrun's place it is a program's name, too.
        os.symlink(program("ddprun"), os.path.join(self.folder, "torchrun"))
        done = subprocess.run([os.path.join(self.folder, "torchrun"), "--no-python", "doctor"], env={**self.environment, **path},
                              capture_output=True, text=True, check=False, timeout=support.HANG_GUARD)
        self.assertEqual((done.returncode, done.stdout), (0, "here is the program\n"), done.stderr)

    def test_a_full_disk(self):
        place = os.path.join(self.folder, "full")
        os.mkdir(place)
        self.mount("-t tmpfs -o size=64k tmpfs", place)
        with open(os.path.join(place, "much"), "wb") as file, contextlib.suppress(OSError):
            file.write(b"x" * (1 << 20))
        finding = self.examine(env={"TMPDIR": place})["folder", place]
        self.assert_found(finding, "problem", "temporary files", "No space left on device", "TMPDIR")
        finding = self.examine("--log-dir", os.path.join(place, "logs"))["folder", os.path.join(place, "logs")]
        self.assert_found(finding, "problem", "logs", f"is to be made in {place}", "--log-dir")
        for home in ({"HOME": place}, {"HOME": place, "DDPRUN_LOG_DIR": "~/logs"}):
            words = () if len(home) > 1 else ("--log-dir=~/logs",)
            self.assert_found(self.examine(*words, env=home)["folder", os.path.join(place, "logs")], "problem", "logs")
        finding = self.examine(env={"PET_LOG_DIR": place})["folder", place]
        self.assert_found(finding, "problem", "logs")
        self.assert_check_refuses("No space left on device", env={"TMPDIR": place})
        self.assert_check_refuses("No space left on device", job=("--log-dir", os.path.join(place, "%j")))
        self.assert_check_refuses("No space left on device", job=("--exit-codes=one",), code=1, env={"TMPDIR": place})

    def test_little_shared_memory(self):
        self.mount("-t tmpfs -o size=64m tmpfs", "/dev/shm")
        self.assert_found(self.examine()["shared_memory", ""], "warning", "64.0 MiB", "--shm-size")
        with open("/dev/shm/much", "wb") as file, contextlib.suppress(OSError):
            file.write(b"x" * (65 << 20))
        self.assert_found(self.examine()["shared_memory", ""], "problem", "0 bytes of 64.0 MiB")
        self.assert_check_refuses("shared_memory")

    def test_few_open_files(self):
        few = ("sh", "-c", 'ulimit -n 64; exec "$@"', "sh")
        self.assert_found(self.examine(prefix=few)["open_files", ""], "problem", "64 for ddprun", "ulimit -n 65536")
        self.assert_check_refuses("open_files", prefix=few)
        # Only the soft limit, which is what workers get.
        few = ("sh", "-c", 'ulimit -Sn 64; exec "$@"', "sh")
        self.assert_found(self.examine(prefix=few)["open_files", ""], "warning", "64 for workers")
        self.assertEqual(self.run_job("--check", *worker("exit", "0"), prefix=few)[0], 0)

    def test_names(self):
        for address, text in (("127.0.1.1", "leads every other node to itself"), ("203.0.113.7", "no address of this node")):
            hosts = self.write("hosts", f"127.0.0.1 localhost\n{address} gpu01\n")
            prefix = ("unshare", "--uts", "--mount", "sh", "-c", f'hostname gpu01; mount --bind {hosts} /etc/hosts; exec "$@"', "sh")
            finding = self.examine(prefix=prefix)["host_name", ""]
            self.assert_found(finding, "warning", f"gpu01 stands for {address}", text, "--master-addr")

    def test_interfaces(self):
        self.assert_found(self.examine()["addresses", ""], "warning", "only those of loopback")
        do("ip link add eth7 type veth peer name eth8 && ip address add 10.77.0.7/24 dev eth7 && ip link set eth7 up")
        self.undo.callback(do, "ip link delete eth7")
        self.assert_found(self.examine()["addresses", ""], "ok", "10.77.0.7 (eth7)")
        do("ip link set lo down")
        self.assert_found(self.examine()["addresses", ""], "problem", "ip link set lo up")
        self.assert_check_refuses("addresses")

    def test_a_port_that_is_taken(self):
        self.assertEqual(self.examine()["port", "29500"]["state"], "ok")
        with socket.create_server(("127.0.0.1", 29500)):
            finding = self.examine()["port", "29500"]
            self.assert_found(finding, "warning", f"taken by pid {os.getpid()}", "--master-port")
            self.assert_check_refuses("port 29500: taken", job=("--master-port=29500",))
            # A job that takes a free port has no need of that one.
            self.assertEqual(self.run_job("--check", *worker("exit", "0"))[0], 0)

    def test_proxies_are_named_without_their_passwords(self):
        code, out, _ = self.run_job("doctor", env={"https_proxy": "http://me:hush@proxy:3128"})
        self.assertRegex(out, r"(?m)^ok +proxy: https_proxy is set; ddprun goes through no proxy")
        self.assertNotIn("hush", out)
        self.assertIn(code, (0, PROBLEM))

    def test_pytorch_is_seen_and_not_imported(self):
        self.write("site/torch-9.8.7.dist-info/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 9.8.7\n")
        self.write("site/torch/__init__.py", f"open({os.path.join(self.folder, 'imported')!r}, 'w')\n")
        # Nor is what lies in the current folder taken for Python's own.
        self.write("email.py", "import torch\n")
        findings = self.examine(env={"PYTHONPATH": os.path.join(self.folder, "site"), "PYTHON_EXEC": sys.executable},
                                cwd=self.folder)
        self.assert_found(findings["pytorch", ""], "ok", f"9.8.7 in {self.folder}/site")
        self.assert_found(findings["python", ""], "ok", sys.executable, "%d.%d.%d" % sys.version_info[:3])
        self.assertFalse(os.path.exists(os.path.join(self.folder, "imported")))
        self.assert_found(self.examine(env={"PYTHON_EXEC": "/bin/false"})["python", ""], "problem", "/bin/false")
        self.assert_found(self.examine(env={"PYTHON_EXEC": "no-such-python"})["python", ""], "warning", "no-such-python")

    def test_no_proc(self):
        if os.environ.get("DDPRUN_SANITIZED"):
            self.skipTest("sanitizers have words of their own about a machine without /proc")
        bare = ("unshare", "--mount", "sh", "-c", 'umount -l /proc; exec "$@"', "sh")
        self.assert_found(self.examine(prefix=bare)["proc", ""], "warning", "mount -t proc proc /proc")

    def test_what_hangs_is_said_and_does_not_hold_anybody_up(self):
        if why := why_no_silent_folder():
            self.skipTest(why)
        python = self.write("python3", "#!/bin/sh\nsleep 1000\n", 0o755)
        with silent_folder() as folder:
            logs = os.path.join(folder, "logs")
            findings = self.examine("--log-dir", logs, env={"PYTHON_EXEC": python})
            self.assert_found(findings["folder", logs], "problem", "hangs", "--log-dir")
            self.assert_found(findings["python", ""], "problem", "hangs")
            self.assertNotEqual(findings["folder", "/tmp"]["state"], "problem")
            findings = self.examine(env={"PATH": f"{folder}:{os.environ['PATH']}"})
            self.assert_found(findings["python", ""], "problem", "python3 is looked for, which hangs")
            self.assert_check_refuses(f"folder {folder}: logs: hangs", job=("--log-dir", os.path.join(folder, "%j")))

    def test_a_folder_of_temporary_files_that_hangs(self):
        if why := why_no_silent_folder():
            self.skipTest(why)
        if os.environ.get("DDPRUN_SANITIZED") == "thread":
            self.skipTest("the thread sanitizer opens a file in TMPDIR before ddprun begins, which hangs")
        with silent_folder() as folder:
            finding = self.examine(env={"TMPDIR": folder})["folder", folder]
            self.assert_found(finding, "problem", "temporary files: hangs", "TMPDIR")
            self.assert_check_refuses(f"folder {folder}: temporary files: hangs", env={"TMPDIR": folder})

    def test_a_job_that_passes_its_check(self):
        code, out, err = self.run_job("--check", "--nproc-per-node=2", *worker("print-env"))
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sorted(re.findall("^RANK=(.*)$", out, re.MULTILINE)), ["0", "1"])


if __name__ == "__main__":
    isolate()
    support.main()
