"""One node: environment, arguments, exit codes, bad input, ports."""

import os
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

import support
from support import EndToEndTest, free_port, program, worker


class Workers(EndToEndTest):
    def test_environment_of_each_worker(self):
        code, out, err = self.run_job("--nproc-per-node", 3, "--rdzv-id", "my-job", "--role", "trainer",
                                      *worker("print-env"), env={"OMP_NUM_THREADS": "5", "SENTINEL": "kept"})
        self.assertEqual((code, err), (0, ""))
        for name, values in {
                "RANK": "012", "LOCAL_RANK": "012", "ROLE_RANK": "012", "WORLD_SIZE": ["3"] * 3,
                "LOCAL_WORLD_SIZE": ["3"] * 3, "GROUP_RANK": "000", "GROUP_WORLD_SIZE": "111",
                "ROLE_NAME": ["trainer"] * 3, "ROLE_WORLD_SIZE": "333", "MASTER_ADDR": ["127.0.0.1"] * 3,
                "TORCHELASTIC_RUN_ID": ["my-job"] * 3, "TORCHELASTIC_RESTART_COUNT": "000",
                "TORCHELASTIC_MAX_RESTARTS": "000", "TORCHELASTIC_USE_AGENT_STORE": ["True"] * 3,
                "TORCH_NCCL_ASYNC_ERROR_HANDLING": "111", "OMP_NUM_THREADS": "555", "SENTINEL": ["kept"] * 3}.items():
            found = sorted(re.findall(rf"^{name}=(.*)$", out, re.MULTILINE))
            self.assertEqual(found, list(values), name)
        ports = set(re.findall(r"^MASTER_PORT=(\d+)$", out, re.MULTILINE))
        ids = set(re.findall(r"^DDPRUN_RUN_ID=(.+)$", out, re.MULTILINE))
        self.assertEqual((len(ports), len(ids)), (1, 1))
        self.assertNotEqual(ports, {"0"})

    def test_networks_reach_the_workers(self):
        code, out, err = self.run_job("--net", "10.0.0.0/8,fd00::/8", *worker("print-env"))
        self.assertEqual((code, err), (0, ""))
        self.assertIn("\nDDPRUN_NET=10.0.0.0/8,fd00::/8\n", out)
        for wrong in ("eth0", "10.0.0.0/33", "10.0.0.0/8,"):
            code, _, err = self.run_job("--net", wrong, *worker("print-env"))
            self.assertEqual(code, 2)
            self.assertIn(f"--net {wrong}: must be networks", err)

    def test_arguments_arrive_byte_for_byte(self):
        seed = random.randrange(1 << 32)
        rng = random.Random(seed)
        arguments = ["", " ", "-", "--", "--nnodes", "--nproc-per-node=9", "-h", "$$", "${HOME}", "a\nb", "\\", "'", '"']
        for _ in range(40):
            # Without carriage returns: on their way out they are progress bars, of which the last state counts.
            arguments.append("".join(chr(rng.choice([*range(1, 13), *range(14, 128)])) for _ in range(rng.randrange(12))))
        arguments.append(b"\xff\xfe".decode(errors="surrogateescape"))
        expected = "".join(f"{len(os.fsencode(argument))}:{argument}\n" for argument in arguments)
        for dashes in ([], ["--"]):
            done = subprocess.run([program("ddprun"), *dashes, *worker("print-args"), *arguments], env=self.environment,
                                  capture_output=True, timeout=support.HANG_GUARD)
            self.assertEqual(os.fsdecode(done.stdout), expected, f"seed {seed}")

    def test_one_pair_of_dashes_is_dropped_as_torchrun_does(self):
        stub, *mode = worker("print-args")
        for words, arguments in (([stub, "--", *mode, "--depth=26"], ["--depth=26"]),
                                 (["--", stub, *mode, "--", "x"], ["--", "x"]),
                                 ([stub, *mode, "a", "--", "b"], ["a", "--", "b"]),
                                 ([stub, "--", *mode, "--", "x"], ["--", "x"])):
            code, out, err = self.run_job(*words)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(out.splitlines(), [f"{len(argument)}:{argument}" for argument in arguments], words)

    def test_an_empty_value_takes_nothing_from_the_next_word(self):
        for empty in (["--role="], ["--role", ""], ["--master-addr=", "--master-port="], ["--rdzv-conf="], ["-r", ""]):
            code, out, err = self.run_job(*empty, "--nproc-per-node=2", *worker("print-env"),
                                          env={"PET_NNODES": "", "PET_NPROC_PER_NODE": "", "PET_STANDALONE": ""})
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(re.findall("^ROLE_NAME=.*$", out, re.MULTILINE), ["ROLE_NAME=default"] * 2, empty)

    def test_local_rank_is_filled_in_where_it_is_named(self):
        code, out, _ = self.run_job("--nproc-per-node", 2, *worker("print-args"), "dev=${local_rank}", "$local_rank!")
        self.assertEqual(code, 0)
        self.assertEqual(sorted(out.split()), sorted(["5:dev=0", "2:0!", "5:dev=1", "2:1!"]))

    def test_python_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "train.py")
            with open(script, "w", encoding="ascii") as file:
                file.write("import os, sys\nprint(os.environ['RANK'], sys.argv[1:], sys.stdout.write_through)\n")
            code, out, _ = self.run_job("--nproc-per-node", 2, script, "--epochs", 3)
            self.assertEqual(code, 0)
            self.assertEqual(sorted(out.splitlines()), ["0 ['--epochs', '3'] True", "1 ['--epochs', '3'] True"])
            code, out, _ = self.run_job("-m", "train", env={"PYTHONPATH": folder})
            self.assertEqual((code, out), (0, "0 [] True"))
            code, out, _ = self.run_job("--no-python", script)
            self.assertEqual(code, 126, "a script without the execute permission is not executed by itself")

    def test_keys_of_rdzv_conf_that_nobody_knows_are_passed_over_with_a_word(self):
        self.assertEqual(self.run_job("--rdzv-conf", "join_timout=5,read_timeout=3", "true"), (
            0, "", "ddprun: --rdzv-conf join_timout: passed over, no such key; did you mean join_timeout?"))

    def test_a_missing_module_and_v_name_the_interpreter(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "train.py")
            with open(script, "w", encoding="ascii") as file:
                file.write("import no_such_module_of_anybody\n")
            python = os.path.join(folder, "venv", "bin", "python3")
            os.makedirs(os.path.dirname(python))
            os.symlink(sys.executable, python)
            path = os.path.dirname(python) + ":" + os.environ["PATH"]
            for venv, ending in ((os.path.join(folder, "venv"), ""), ("", ""),
                                 ("/elsewhere", ", but VIRTUAL_ENV is /elsewhere; "
                                                "PYTHON_EXEC=/elsewhere/bin/python3 takes that one")):
                code, _, err = self.run_job(script, env={"PATH": path, "VIRTUAL_ENV": venv, "PYTHON_EXEC": ""})
                self.assertEqual(code, 1)
                self.assertEqual(re.findall("hint: (.*)", err), [f"the interpreter is {python}{ending}"])
            code, _, err = self.run_job("-v", script, env={"PATH": "/nowhere", "VIRTUAL_ENV": "", "PYTHON_EXEC": python})
            self.assertEqual(err.splitlines()[0], f"ddprun: the interpreter is {python}")
            self.assertNotIn("interpreter", self.run_job("-v", "true")[2])

    def test_a_crash_of_a_python_program_leaves_its_stack(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "train.py")
            with open(script, "w", encoding="ascii") as file:
                file.write("import os, signal\ndef crash_here():\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
                           "crash_here()\n")
            for value, shown in ((None, True), ("1", True), ("", False)):
                environment = {name: text for name, text in self.environment.items() if name != "PYTHONFAULTHANDLER"}
                done = subprocess.run([program("ddprun"), script], capture_output=True, text=True,
                                      timeout=support.HANG_GUARD, cwd=folder,
                                      env=environment | ({} if value is None else {"PYTHONFAULTHANDLER": value}))
                self.assertEqual(done.returncode, 128 + signal.SIGSEGV)
                self.assertEqual("in crash_here" in done.stderr, shown, done.stderr)

    def test_workers_have_sessions_of_their_own_and_nothing_of_the_launcher(self):
        code, out, _ = self.run_job("--nproc-per-node", 2, *worker("session", "fds", "dispositions", "print-stdin"))
        self.assertEqual(code, 0)
        for pid, pgid, sid in re.findall(r"^pid (\d+) ppid \d+ pgid (\d+) sid (\d+)$", out, re.MULTILINE):
            self.assertEqual((pgid, sid), (pid, pid))
        self.assertEqual(sorted(re.findall(r"^\d+$", out, re.MULTILINE)), ["0", "0", "1", "1", "2", "2"])
        self.assertEqual(re.findall(r"^(?:ignored|blocked) .*$", out, re.MULTILINE), [])
        self.assertEqual(out.count("eof"), 2)

    def test_devices_are_bound_as_asked(self):
        def masks(*flags, mask="4,GPU-ab,MIG-x", program_words=None):
            code, out, err = self.run_job(*flags, *(program_words or worker("print-env")),
                                          env={"CUDA_VISIBLE_DEVICES": mask})
            self.assertEqual(code, 0, err)
            return sorted(re.findall(r"^(?:CUDA_VISIBLE_DEVICES|DDPRUN_DEVICE)=.*$", out, re.MULTILINE))

        self.assertEqual(masks("--nproc-per-node", "gpu"),
                         ["CUDA_VISIBLE_DEVICES=4", "CUDA_VISIBLE_DEVICES=GPU-ab", "CUDA_VISIBLE_DEVICES=MIG-x",
                          "DDPRUN_DEVICE=0", "DDPRUN_DEVICE=0", "DDPRUN_DEVICE=0"])
        self.assertEqual(masks("--nproc-per-node", 2, "--gpu-bind", "all"),
                         ["CUDA_VISIBLE_DEVICES=4,GPU-ab,MIG-x"] * 2 + ["DDPRUN_DEVICE=0", "DDPRUN_DEVICE=1"])
        self.assertEqual(masks("--gpu-bind=none"), ["CUDA_VISIBLE_DEVICES=4,GPU-ab,MIG-x"])
        code, _, err = self.run_job("--nproc-per-node", 3, "true", env={"CUDA_VISIBLE_DEVICES": "4,5"})
        self.assertEqual(code, 2)
        for words in ("--nproc-per-node 3", "CUDA_VISIBLE_DEVICES=4,5", "--share-gpus"):
            self.assertIn(words, err)
        code, _, _ = self.run_job("--nproc-per-node", 3, "--share-gpus", "true", env={"CUDA_VISIBLE_DEVICES": "4,5"})
        self.assertEqual(code, 0)

    def test_output_of_success_is_the_workers_alone(self):
        for _ in range(20):
            self.assertEqual(self.run_job("--nproc-per-node", 4, "true"), (0, "", ""))


class ExitCodes(EndToEndTest):
    def test_every_exit_code_is_passed_on(self):
        # A sanitizer makes each start slow, and finds nothing new in the next number.
        step = 17 if os.environ.get("DDPRUN_SANITIZED") else 1
        for number in range(0, 256, step):
            code, _, err = self.run_job(*worker("exit", str(number)))
            self.assertEqual(code, number)
            if number:
                self.assertIn(f"exit code {number}", err)

    def test_every_signal_is_128_plus_its_number(self):
        # Those whose default is to end a process.
        harmless = {signal.SIGCHLD, signal.SIGCONT, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
                    signal.SIGURG, signal.SIGWINCH}
        for number in sorted(set(signal.valid_signals()) - harmless):
            code, _, err = self.run_job(*worker("signal", str(int(number))))
            self.assertEqual(code, 128 + number)
            self.assertIn(f"signal {int(number)} (", err)

    def test_first_failure_is_named_and_ends_the_others(self):
        code, _, err = self.run_job("--nproc-per-node", 4, *worker(
            "--only-rank", "2", "exit", "7", "else", "ready-then-wait"))
        self.assertEqual(code, 7)
        self.assertRegex(err, r"rank 2 \(local rank 2\) on node 0 \(.+\), pid \d+: exit code 7")

    def test_a_program_that_cannot_be_started(self):
        code, _, err = self.run_job("--nproc-per-node", 2, "./no-such-program")
        self.assertEqual(code, 127)
        self.assertIn("no-such-program", err)
        code, _, err = self.run_job("no-such-program-on-path")
        self.assertEqual(code, 127)
        with tempfile.NamedTemporaryFile("w") as plain:
            print("#!/bin/sh", file=plain, flush=True)
            os.chmod(plain.name, stat.S_IRUSR)
            code, _, err = self.run_job(plain.name)
            self.assertEqual(code, 126)
            self.assertIn(plain.name, err)


class BadInput(EndToEndTest):
    CASES = [
        (["--nnodes", "0", "true"], ["--nnodes", "0"]),
        (["--nnodes", "-1", "true"], ["--nnodes", "-1"]),
        (["--nnodes=3:1", "true"], ["--nnodes", "3:1"]),
        (["--nnodes", "a", "true"], ["--nnodes", "a"]),
        (["--nnodes", "0:2", "true"], ["--nnodes", "0:2"]),
        (["--nnodes", "2", "--spares", "1", "true"], ["--spares 1", "--nnodes 2:3"]),
        (["--nnodes", "2:3", "--spares", "2", "true"], ["--spares 2", "--nnodes 2:3"]),
        (["--nnodes", "2:3", "--standalone", "true"], ["--standalone", "--nnodes is 2:3"]),
        (["--resize", "soon", "true"], ["--resize", "soon"]),
        (["--rdzv-conf", "last_call_timeout=x", "true"], ["--rdzv-conf last_call_timeout", "x"]),
        (["--role", "--nproc-per-node=2", "true"], ["--role", "--nproc-per-node=2 follows"]),
        (["--nproc-per-node", "0", "true"], ["--nproc-per-node", "0"]),
        (["--nproc_per_node", "-2", "true"], ["--nproc_per_node", "-2"]),
        (["--nproc-per-node", "4.5", "true"], ["--nproc-per-node", "4.5"]),
        (["--nproc-per-node", "99999999999", "true"], ["--nproc-per-node", "99999999999"]),
        (["--nproc-per-node", "tpu", "true"], ["--nproc-per-node", "tpu"]),
        (["--nproc-per-node", "gpu", "true"], ["--nproc-per-node gpu", "no GPU"]),
        (["--node-rank", "1", "true"], ["--node-rank", "1", "--nnodes"]),
        (["--nnodes", "2", "--node-rank", "2", "--master-addr", "a", "true"], ["--node-rank 2", "--nnodes"]),
        (["--node-rank", "-1", "true"], ["--node-rank", "-1"]),
        (["--master-port", "65536", "true"], ["--master-port", "65536"]),
        (["--master-port", "-1", "true"], ["--master-port", "-1"]),
        (["--master-port", "http", "true"], ["--master-port", "http"]),
        (["--nnodes=2", "--master-addr=a", "--master-port=0", "true"], ["--master-port", "0"]),
        (["--master-addr", "a b", "true"], ["--master-addr", "a b"]),
        (["--master-addr", "300.1.1.1", "true"], ["--master-addr", "300.1.1.1"]),
        (["--master-addr", "[::1", "true"], ["--master-addr", "[::1"]),
        (["--master-addr", "host:12", "true"], ["--master-addr", "host:12"]),
        (["--rdzv-endpoint", "host:x", "true"], ["--rdzv-endpoint", "host:x"]),
        (["--rdzv-backend", "zookeeper", "true"], ["--rdzv-backend", "zookeeper"]),
        (["--rdzv-conf", "join_timeout", "true"], ["--rdzv-conf", "join_timeout"]),
        (["--rdzv-conf", "join_timeout=0", "true"], ["join_timeout", "0"]),
        (["--join-timeout", "0", "true"], ["--join-timeout", "0"]),
        (["--join-timeout", "9", "--heartbeat", "9", "true"], ["--heartbeat 9", "--join-timeout"]),
        (["--time-limit", "9", "--warn-before", "9", "true"], ["--warn-before 9", "--time-limit"]),
        (["--hang-timeout", "0.9", "true"], ["--hang-timeout 0.9", "at least 1 s"]),
        (["--same-failure", "1", "true"], ["--same-failure 1"]),
        (["--gpu-bind", "some", "true"], ["--gpu-bind", "some"]),
        (["--shutdown-timeout", "-1", "true"], ["--shutdown-timeout", "-1"]),
        (["--max-restarts", "-1", "true"], ["--max-restarts", "-1"]),
        (["--max-restarts", "many", "true"], ["--max-restarts", "many"]),
        (["--restart-on", "256", "true"], ["--restart-on", "256"]),
        (["--no-restart-on", "5-2", "true"], ["--no-restart-on", "5-2"]),
        (["--backoff", "5m..1s", "true"], ["--backoff", "5m..1s"]),
        (["--backoff", "soon", "true"], ["--backoff", "soon"]),
        (["--min-uptime", "1 s", "true"], ["--min-uptime", "1 s"]),
        (["--forward", "NOSUCH", "true"], ["--forward", "NOSUCH"]),
        (["--forward", "USR1=NOSUCH", "true"], ["--forward", "NOSUCH"]),
        (["--forward", "KILL=TERM", "true"], ["--forward", "KILL=TERM"]),
        (["--requeue-on", "NOSUCH", "true"], ["--requeue-on", "NOSUCH"]),
        (["--requeue-on", "USR1,KILL", "true"], ["--requeue-on KILL"]),
        (["--requeue-on", "STOP", "true"], ["--requeue-on STOP"]),
        (["--requeue-on", "TERM", "true"], ["--requeue-on TERM", "--signals-to-handle"]),
        (["--requeue-on", "USR1", "--signals-to-handle", "USR1", "true"], ["--requeue-on USR1", "--signals-to-handle"]),
        (["--signal-scope", "all", "true"], ["--signal-scope", "all"]),
        (["--standalone", "--nnodes", "2", "true"], ["--standalone", "--nnodes"]),
        (["--show", "9", "true"], ["--show 9", "1 worker"]),
        (["--tty", "5", "--nproc-per-node", "2", "true"], ["--tty 5", "ranks 0 to 1"]),
        (["--wrap", "7:env", "true"], ["--wrap '7:env'", "1 worker"]),
        (["--local-ranks-filter", "0-2", "true"], ["--local-ranks-filter 0-2", "1 worker"]),
        (["-r", "5:3", "--nproc-per-node", "4", "true"], ["-r 5:3", "local ranks 0 to 3"]),
        (["-t", "0:1,1:1", "true"], ["-t 1:1", "local rank 0"]),
        (["--result-file", "/no/such/folder/x", "true"], ["--result-file '/no/such/folder/x'", "No such file"]),
        (["--result-file", "/", "sh", "-c", "echo started"], ["--result-file '/'", "Is a directory"]),
        (["--detach", "--result-file", "/no/such/folder/x", "true"], ["--result-file '/no/such/folder/x'"]),
        (["--log-dir", "/dev/full/x", "true"], ["--log-dir '/dev/full/x'", "Not a directory"]),
        (["-m", "--no-python", "true"], ["module", "--no-python"]),
        (["--nproc-per-nude", "2", "true"], ["--nproc-per-nude", "did you mean --nproc-per-node?"]),
        (["--completely-unknown", "true"], ["--completely-unknown"]),
        (["-x", "true"], ["-x"]),
        (["--nnodes"], ["--nnodes", "value"]),
        ([], ["no program"]),
        (["--"], ["no program"]),
    ]

    def test_one_line_that_names_flag_and_value_and_exit_code_2(self):
        environment = {name: value for name, value in self.environment.items() if name != "CUDA_VISIBLE_DEVICES"}
        for arguments, words in self.CASES:
            with self.subTest(arguments):
                done = subprocess.run([program("ddprun"), *arguments], capture_output=True, text=True, env=environment,
                                      timeout=support.HANG_GUARD)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)

    def test_help_and_version(self):
        code, out, err = self.run_job("--help", "all")
        self.assertEqual((code, err), (0, ""))
        for flag in ("--nnodes", "--nproc-per-node", "--master-addr", "--gpu-bind", "--shutdown-timeout"):
            self.assertIn(flag, out)
        code, out, _ = self.run_job("--version")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^ddprun \d+\.\d+\.\d+\nwith Boost \d+\.\d+\.\d+, fmt [\d.]+, toml\+\+ [\d.]+, libsodium \d+\.\d+\.\d+, CLI11 [\d.]+, "
                              r"spdlog [\d.]+, elfutils [\d.]+, zlib [\d.]+, libstdc\+\+ \d+; [^\n]*OpenSSL[^\n]*$")

    def test_the_licences_of_all_that_is_inside_are_in_each_program(self):
        with open(os.path.join(os.path.dirname(__file__), "..", "..", "LICENSE"), encoding="utf-8") as own:
            own = own.read()
        for name in ("ddprun", "ddpctl", "ddpbench"):
            with tempfile.TemporaryDirectory() as folder:
                alone = shutil.copy(program(name), folder)
                done = subprocess.run([alone, "--licenses"], capture_output=True, text=True, timeout=support.HANG_GUARD, cwd=folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.startswith(own), name)
            for library in ("Boost Software License", "CLI11: BSD", "fmt, spdlog, toml++", "libsodium: ISC", "zlib: zlib", "elfutils: GNU Lesser", "libstdc++"):
                self.assertIn(library, done.stdout)

    def test_torchruns_variables_and_their_order(self):
        code, out, _ = self.run_job(*worker("say", "x"), env={"PET_NPROC_PER_NODE": "3"})
        self.assertEqual((code, out.count("x")), (0, 3))
        code, out, _ = self.run_job("--nproc-per-node=2", *worker("say", "x"), env={"PET_NPROC_PER_NODE": "3"})
        self.assertEqual((code, out.count("x")), (0, 2))


class Ports(EndToEndTest):
    def test_a_taken_port_names_who_holds_it(self):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            port = holder.getsockname()[1]
            code, _, err = self.run_job("--master-port", port, "true")
        self.assertEqual(code, 71)
        for words in (f"127.0.0.1:{port}", f"pid {os.getpid()}", "launch_test.py", "--master-port"):
            self.assertIn(words, err)

    def test_a_worker_that_cannot_reach_its_store_says_so(self):
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))  # and does not listen
            port = nobody.getsockname()[1]
            job = self.launch("--nproc-per-node", 2, "sh", "-c", f"MASTER_PORT={port} exec {program('ddpbench')} all_reduce")
            for _ in range(2):
                job.wait_for_line(rf"^rank [01] waits for the store at 127\.0\.0\.1:{port} \(MASTER_ADDR, MASTER_PORT\): "
                                  ".*refused")
            job.send(signal.SIGTERM)
            job.wait()

    def test_many_jobs_side_by_side(self):
        jobs = [self.launch("--nproc-per-node", 2, *worker("print-env")) for _ in range(30)]
        ports = set()
        for job in jobs:
            self.assertEqual(job.wait(), 0, job.err())
            ports |= set(re.findall(r"^MASTER_PORT=(\d+)$", job.out(), re.MULTILINE))
        self.assertGreater(len(ports), 1)

    def test_a_single_node_listens_on_loopback_only_and_on_the_port_it_was_given(self):
        port = free_port()
        job = self.launch("--master-port", port, *worker("ready-then-wait"))
        job.wait_for_line("^ready$")
        with open("/proc/net/tcp", encoding="ascii") as table:
            listeners = [line.split()[1] for line in table if line.split()[3] == "0A"]
        self.assertIn(f"0100007F:{port:04X}", listeners)
        self.assertNotIn(f"00000000:{port:04X}", listeners)
        job.send(signal.SIGTERM)
        job.wait()


if __name__ == "__main__":
    support.main()
