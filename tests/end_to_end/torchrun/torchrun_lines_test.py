#!/usr/bin/env python3
"""Launch lines as people write them for torchrun and torch.distributed.launch: what the program and the script around see.

The rows of LINES re-express what PyTorch's own tests of its launcher ask of a command line.
"""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from support import EndToEndTest, free_port, program, worker

# Says where it is and what it was given, like the script of PyTorch's own tests; "fail" ends it with 7.
SCRIPT = """import os, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK",
         "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
         "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_SIGNALS_TO_HANDLE")
missing = [name for name in names if name not in os.environ]
print("missing", missing) if missing else None
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "local", os.environ["LOCAL_RANK"], "words", sys.argv[1:],
      "as", __name__)
print("id", os.environ["TORCHELASTIC_RUN_ID"], "at", os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
print("signals", os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"], "omp", os.environ.get("OMP_NUM_THREADS"),
      "mask", os.environ.get("CUDA_VISIBLE_DEVICES"))
if sys.argv[1:] == ["read"]:
    print("stdin", repr(sys.stdin.read()))
if sys.argv[1:] == ["raise"]:
    raise ValueError("on purpose")
sys.exit(7 if sys.argv[1:] == ["fail"] else 0)
"""


class LinesTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.script = self.file("train.py")
        for name in ("torchrun", "ddprun-launch"):
            os.symlink(program("ddprun"), os.path.join(self.folder, name))
        self.environment = {name: value for name, value in self.environment.items()
                            if name not in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PYTHONFAULTHANDLER")}

    def file(self, name, text=SCRIPT, mode=0o644):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def run_line(self, *words, name="ddprun", env=None, stdin=subprocess.DEVNULL, **more):
        launcher = program(name) if name == "ddprun" else os.path.join(self.folder, name)
        done = subprocess.run([launcher, *map(str, words)], env={**self.environment, **(env or {})}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=support.HANG_GUARD, cwd=self.folder,
                              **({"stdin": stdin} if "input" not in more else {}), **more)
        return done.returncode, done.stdout, done.stderr

    def ranks(self, *words, **more):
        """What each rank said of itself, the job having ended with 0 and without a word of the launcher."""
        code, out, err = self.run_line(*words, **more)
        self.assertEqual((code, err), (0, ""), words)
        self.assertNotIn("missing", out)
        return sorted(re.findall("^rank (.*)$", out, re.MULTILINE))


def expected(count, words="[]", local=None, name="__main__"):
    return [f"{rank} of {count} local {rank if local is None else local} words {words} as {name}" for rank in range(count)]


class Lines(LinesTest):
    # Name of the upstream test, words (SCRIPT is the program), variables, number of ranks, what the program gets.
    LINES = [
        ("launch_user_script_python", ["--nnodes=1", "--nproc-per-node=4", "--rdzv-id=x", "--monitor-interval=1",
                                       "--start-method=spawn", "SCRIPT", "--a"], {}, 4, "['--a']"),
        ("launch_user_script_python_caffe2_bc", ["--nnodes=1", "--nproc_per_node=4", "--monitor_interval=1",
                                                 "--start_method=spawn", "--master_addr=localhost", "--master_port=PORT",
                                                 "--node_rank=0", "SCRIPT"], {}, 4, "[]"),
        ("launch_user_script_default_nproc", ["--nnodes=1", "--rdzv-id=x", "--start-method=fork", "SCRIPT"], {}, 1, "[]"),
        ("launch_with_env_vars", ["SCRIPT", "x"], {
            "PET_NNODES": "1", "PET_NPROC_PER_NODE": "4", "PET_RDZV_ID": "x", "PET_MONITOR_INTERVAL": "1",
            "PET_START_METHOD": "spawn", "PET_NO_PYTHON": "0", "PET_MODULE": "0", "PET_RUN_PATH": "0",
            "PET_STANDALONE": "0", "PET_VIRTUAL_LOCAL_RANK": "0"}, 4, "['x']"),
        ("nproc_launch_number_configurations", ["--nproc-per-node", "3", "SCRIPT"], {}, 3, "[]"),
        ("launch_elastic", ["--nnodes=1:2", "--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
                            "--rdzv-conf=join_timeout=60,last_call_timeout=0", "SCRIPT"], {}, 2, "[]"),
        ("launch_standalone", ["--standalone", "--nproc-per-node=4", "SCRIPT"], {}, 4, "[]"),
        ("launch_standalone by a variable", ["--nproc-per-node=2", "SCRIPT"], {"PET_STANDALONE": "1"}, 2, "[]"),
        ("launch_run_path", ["--run-path", "--nproc-per-node=4", "SCRIPT", "x"], {}, 4, "['x']"),
        ("run-path is stronger than no-python", ["--run_path", "--no_python", "-m", "SCRIPT"], {}, 1, "[]"),
        ("is_torchelastic_launched_with_logs_spec_defined", ["--logs-specs=default", "SCRIPT"], {}, 1, "[]"),
        ("standalone overrides", ["--standalone", "--rdzv_backend=c10d", "--rdzv_endpoint=nosuch:1", "--master_addr=nosuch",
                                  "--master_port=1", "--node_rank=2", "--nproc=2", "SCRIPT"], {}, 2, "[]"),
        ("abbreviations", ["--nproc-per=2", "--standal", "--redirect=0", "--monitor_i=5", "SCRIPT"], {}, 2, "[]"),
        ("a pair of dashes before the arguments", ["SCRIPT", "--", "--depth=26"], {}, 1, "['--depth=26']"),
        ("a pair of dashes before the program", ["--", "SCRIPT", "--", "x"], {}, 1, "['--', 'x']"),
        ("a pair of dashes among the arguments", ["SCRIPT", "a", "--", "b"], {}, 1, "['a', '--', 'b']"),
        ("a module and dashes", ["-m", "train", "--", "--depth=26"], {}, 1, "['--depth=26']"),
        ("dashes and a module", ["-m", "--", "train"], {}, 1, "[]"),
        ("dollars", ["SCRIPT", "$$${local_rank}", "$$"], {}, 1, "['$0', '$$']"),
        ("its options are the program's", ["SCRIPT", "-r=3", "--nproc=4", "--rdzv"], {}, 1, "['-r=3', '--nproc=4', '--rdzv']"),
        ("empty values", ["--role=", "--nproc-per-node=2", "--rdzv-conf=", "--master-addr", "", "SCRIPT"],
         {"PET_NPROC_PER_NODE": "", "PET_NNODES": "", "PET_STANDALONE": ""}, 2, "[]"),
        ("short options", ["-r=0", "-t=0", "SCRIPT"], {}, 1, "[]"),
        ("what changes nothing", ["--start-method=forkserver", "--event-log-handler=null", "--exit-barrier-timeout=0",
                                  "--monitor-interval=0.1", "--local-addr=localhost", "SCRIPT"], {}, 1, "[]"),
    ]

    def test_launch_lines(self):
        for name, words, variables, count, arguments in self.LINES:
            with self.subTest(name):
                line = [word.replace("SCRIPT", self.script).replace("PORT", str(free_port())) for word in words]
                self.assertEqual(self.ranks(*line, env={"PYTHONPATH": self.folder, **variables}), expected(count, arguments))

    # What is refused, variables, and the words of the one line that says so.
    REFUSED = [
        (["--nproc-per-node=tpu", "x"], {}, ["--nproc-per-node tpu"]),
        (["--nnodes=1:2:3", "x"], {}, ["--nnodes 1:2:3", "MIN:MAX"]),
        (["--nnodes=2:1", "x"], {}, ["--nnodes 2:1"]),
        (["--no-python", "--module", "x"], {}, ["module", "--no-python"]),
        (["x"], {"PET_MODULE": "1", "PET_NO_PYTHON": "1"}, ["module", "--no-python"]),
        (["--logs-specs=DOESNOT_EXIST", "x"], {}, ["--logs-specs DOESNOT_EXIST"]),
        (["--start_method=thread", "x"], {}, ["--start_method thread", "forkserver"]),
        (["--shutdown_timeout=-1", "x"], {}, ["--shutdown_timeout -1"]),
        (["--monitor-interval=often", "x"], {}, ["--monitor-interval often"]),
        (["--rdzv", "x"], {}, ["--rdzv", "ambiguous", "--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--rdzv-conf"]),
        (["--no_such_option", "x"], {}, ["--no_such_option"]),
        (["--master_port=http", "x"], {}, ["--master_port http"]),
        (["x"], {"PET_NNODES": "many"}, ["many", "PET_NNODES"]),
        (["x"], {"PET_MAX_RESTARTS": "-1"}, ["-1", "PET_MAX_RESTARTS"]),
        (["x"], {"PET_STANDALONE": "perhaps"}, ["perhaps", "PET_STANDALONE"]),
        (["--local-ranks-filter=a", "x"], {}, ["--local-ranks-filter 'a'"]),
        (["--redirects=4", "x"], {}, ["--redirects '4'"]),
        (["--rdzv-conf=a=", "x"], {}, ["--rdzv-conf a="]),
        (["--standalone", "--nnodes=2", "x"], {}, ["--standalone", "--nnodes"]),
        (["--local-addr=203.0.113.9", "x"], {}, ["--local-addr 203.0.113.9", "this machine"]),
    ]

    def test_refused_lines(self):
        for words, variables, said in self.REFUSED:
            with self.subTest(words + list(variables)):
                code, out, err = self.run_line(*words, env=variables)
                self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
                for word in said:
                    self.assertIn(word, err)

    def test_an_error_is_one_line_that_names_what_was_typed(self):
        for words, variables, begin, end in (
                (["--nproc_per_node=2\nx", "x"], {}, "--nproc_per_node 2 x: ", ""),
                (["x"], {"PET_MAX_RESTARTS": "x\n"}, "--max-restarts x ", " (from PET_MAX_RESTARTS)"),
                (["--nproc_per_node=gpu", "x"], {"CUDA_VISIBLE_DEVICES": ""}, "--nproc_per_node gpu: ", ""),
                (["--log_dir=/etc/passwd", "-t=3", "x"], {}, "--log_dir '/etc/passwd': ", ""),
                (["--result_file=/nowhere/x", "x"], {}, "--result_file ", ""),
                (["x"], {"DDPRUN_LOG_FILE": "/nowhere/x"}, "--log-file ", " (from DDPRUN_LOG_FILE)"),
                (["--rdzv_endpoint=203.0.113.9:1", "x"], {}, "--rdzv_endpoint 203.0.113.9: ", "")):
            code, out, err = self.run_line(*words, env=variables)
            self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
            self.assertTrue(err.startswith("ddprun: " + begin) and err.endswith(end + "\n"), err)

    def test_what_is_passed_over_is_one_line_which_q_leaves_out(self):
        line = ["--rdzv_conf=of_mine=1,yours=2", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0",
                "--master_addr=10.0.0.1", "--master_port=6000", "true"]
        self.assertEqual(self.run_line(*line), (
            0, "", "ddprun: --rdzv_endpoint localhost:0: stronger than --master-addr 10.0.0.1 and --master-port 6000\n"
                   "ddprun: --rdzv_conf of_mine, yours: passed over, no such keys\n"))
        self.assertEqual(self.run_line("-q", *line), (0, "", ""))

    def test_what_cannot_be_shown_is_said(self):
        for words in (["--help"], ["--version", "true"], ["--print-completion=bash", "true"], ["--dry-run", "true"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([program("ddprun"), *words], env=self.environment, stdout=full,
                                      stderr=subprocess.PIPE, text=True, timeout=support.HANG_GUARD)
            self.assertEqual((done.returncode, done.stderr),
                             (71, "ddprun: cannot write to stdout: No space left on device\n"), words)

    def test_torchrun_restarts_as_often_as_it_is_told(self):
        for name, restarts in (("torchrun", 5), ("ddprun", 2)):
            out = self.run_line("--max_restarts=5", self.script, "fail", name=name)[1]
            self.assertEqual(len(re.findall("^rank ", out, re.MULTILINE)), 1 + restarts, name)

    def test_a_single_node_takes_a_free_port_and_its_own_id_by_standalone(self):
        ids, ports = set(), set()
        for _ in range(3):
            out = self.run_line("--standalone", "--rdzv-id=same", self.script)[1]
            self.assertRegex(out, r"(?m)^id [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12} at 127\.0\.0\.1 [1-9]\d*$")
            ids |= set(re.findall("^id (.*) at", out, re.MULTILINE))
            ports |= set(re.findall(r"^id .* (\d+)$", out, re.MULTILINE))
        self.assertEqual(len(ids), 3)
        self.assertNotIn("29500", ports)
        self.assertIn("\nid none at ", self.run_line(self.script)[1])
        port = free_port()
        self.assertIn(f" at 127.0.0.1 {port}\n", self.run_line("--master_port", port, self.script)[1])

    def test_signals_to_handle_reach_the_workers(self):
        self.assertIn("\nsignals SIGTERM,SIGINT,SIGHUP,SIGQUIT ", self.run_line(self.script)[1])
        self.assertIn("\nsignals SIGUSR1,SIGUSR2 ", self.run_line("--signals-to-handle=SIGUSR1,SIGUSR2", self.script)[1])

    def test_virtual_local_rank(self):
        for mask, masks in ((None, ["0", "1"]), ("4, GPU-ab", ["4", "GPU-ab"])):
            code, out, err = self.run_line("--virtual-local-rank", "--nproc-per-node=2", self.script,
                                           env={"CUDA_VISIBLE_DEVICES": mask} if mask else {})
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(sorted(re.findall("^rank (. of 2 local .)", out, re.MULTILINE)),
                             ["0 of 2 local 0", "1 of 2 local 0"])
            self.assertEqual(sorted(re.findall("mask (.*)$", out, re.MULTILINE)), masks)

    def test_captured_logs(self):
        logs = os.path.join(self.folder, "logs")
        code, out, _ = self.run_line("--nproc-per-node=2", "--redirect=3", "--tee=3", "--log_dir", logs, self.script,
                                     env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[rank${rank}]: "})
        self.assertEqual(code, 0)
        for rank in range(2):
            self.assertIn(f"[rank{rank}]: rank {rank} of 2 ", out)

    def test_an_exception_under_run_path_is_recorded_without_the_programs_doing(self):
        script = os.path.relpath(self.script, self.folder)
        code, _, err = self.run_line("--run-path", script, "raise")
        self.assertEqual(code, 1)
        self.assertIn("ValueError: on purpose", err)
        self.assertIn("in <module>", err)
        code, _, _ = self.run_line("--run-path", script, "raise", env={"TORCHELASTIC_ERROR_FILE": f"{self.folder}/e"})
        with open(f"{self.folder}/e", encoding="utf-8") as file:
            message = json.load(file)["message"]
        self.assertEqual((code, message["message"], message["errorCode"]), (1, "ValueError: on purpose", 1))
        self.assertEqual(self.run_line("--run-path", script, "fail")[0], 7)


class Programs(LinesTest):
    def test_what_only_python_can_run_is_run_by_it(self):
        self.file("package/__main__.py")
        with zipfile.ZipFile(os.path.join(self.folder, "app.zip"), "w") as archive:
            archive.writestr("__main__.py", SCRIPT)
        self.file("plain")
        self.file("shebang", "#!/usr/bin/env python3\n" + SCRIPT)
        for name in ("package", "app.zip", "plain", "./plain", "shebang", self.script):
            self.assertEqual(self.ranks("--nproc-per-node=2", name, "x"), expected(2, "['x']"), name)

    def test_others_are_executed_or_refused(self):
        self.file("run.sh", "#!/bin/sh\necho from sh\n", 0o755)
        self.assertEqual(self.run_line("./run.sh"), (0, "from sh\n", ""))
        os.chmod(os.path.join(self.folder, "run.sh"), 0o644)
        self.assertEqual(self.run_line("./run.sh")[0], 126)
        os.mkdir(os.path.join(self.folder, "empty"))
        self.assertEqual(self.run_line("./empty")[0], 126)
        self.assertEqual(self.run_line("./nothing")[0], 127)


class Names(LinesTest):
    """Called by another name, which scripts have in them."""

    def test_torchrun_ends_with_torchruns_codes(self):
        for name, flags, codes in (("ddprun", [], (0, 7, 143)), ("torchrun", [], (0, 1, 1)),
                                   ("ddprun", ["--like-torchrun"], (0, 1, 1)), ("ddprun", ["--exit-codes=one"], (0, 1, 1)),
                                   ("torchrun", ["--exit-codes=worker"], (0, 7, 143))):
            for words, code in zip((["true"], ["sh", "-c", "exit 7"], ["sh", "-c", "kill $$"]), codes):
                found, _, err = self.run_line(*flags, "--no-python", *[word.replace("$$", "$$$$") if name == "torchrun" or
                                                                       "--like-torchrun" in flags else word
                                                                       for word in words], name=name)
                self.assertEqual(found, code, (name, flags, words, err))
                if code:
                    self.assertIn(f"exiting with code {code}", err)
        self.assertEqual(self.run_line("--nnodes=x", "true", name="torchrun")[0], 2)
        self.assertEqual(self.run_line("--no-python", "sh", "-c", "exit 2", name="torchrun")[0], 1)
        self.assertEqual(self.run_line("--no-python", "./nothing", name="torchrun")[0], 1)

    def test_torchrun_gives_what_torchrun_gives(self):
        code, out, err = self.run_line("--nproc-per-node=2", "train.py", "$$", name="torchrun",
                                       env={"CUDA_VISIBLE_DEVICES": "3"})
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(re.findall("words (.*) as", out), ["['$']"] * 2)
        self.assertEqual(re.findall("omp (.*)$", out, re.MULTILINE), ["1 mask 3"] * 2)
        out = self.run_line("train.py", name="torchrun")[1]
        self.assertIn("omp None mask None", out)

    def test_torchrun_of_a_virtual_environment_takes_its_python(self):
        venv = os.path.join(self.folder, "venv")
        os.makedirs(os.path.join(venv, "bin"))
        self.file("venv/pyvenv.cfg", "")
        self.file("venv/bin/python3", "#!/bin/sh\necho the one of the environment\n", 0o755)
        os.symlink(program("ddprun"), os.path.join(venv, "bin", "torchrun"))
        self.assertEqual(self.run_line(self.script, name="venv/bin/torchrun"), (0, "the one of the environment\n", ""))

    def test_the_legacy_launcher_passes_the_local_rank(self):
        for name, flags, argument in (("ddprun-launch", [], "--local-rank={}"),
                                      ("ddprun", ["--legacy-launch"], "--local-rank={}"),
                                      ("ddprun-launch", ["--legacy-launch=local_rank"], "--local_rank={}"),
                                      ("ddprun-launch", ["--use_env"], None)):
            code, out, err = self.run_line("--nproc_per_node=2", *flags, self.script, "x", name=name)
            self.assertEqual((code, err), (0, ""))
            given = sorted(re.findall(r"words (\[.*\]) as", out))
            self.assertEqual(given, [str([argument.format(rank), "x"] if argument else ["x"]) for rank in range(2)])
        code, _, err = self.run_line("--no-python", "true", name="ddprun-launch")
        self.assertEqual((code, err.count("\n")), (2, 1))
        self.assertIn("--use-env", err)


class StandardInput(LinesTest):
    def readers(self, *flags, **more):
        out = self.run_line("--nproc-per-node=2", *flags, self.script, "read", **more)[1]
        return sorted(re.findall("^stdin (.*)$", out, re.MULTILINE))

    def test_a_pipe_or_a_file_is_read_by_rank_0(self):
        self.assertEqual(self.readers(input="a\nb\n"), ["''", r"'a\nb\n'"])
        with open(self.file("input", "from a file\n"), encoding="ascii") as file:
            self.assertEqual(self.readers(stdin=file), ["''", r"'from a file\n'"])
        self.assertEqual(self.readers("--stdin=none", input="a\n"), ["''", "''"])
        code, out, _ = self.run_line("--nproc-per-node=2", "--stdin=1", "sh", "-c", "read -r line; echo $RANK:$line",
                                     input="x\n")
        self.assertEqual((code, sorted(out.split())), (0, ["0:", "1:x"]))

    def test_all_share_it(self):
        out = self.run_line("--nproc-per-node=2", "--stdin=all", *worker("print-stdin"), input="one line\n")[1]
        self.assertEqual((out.count("one line"), out.count("eof")), (1, 2))

    def test_a_terminal_stays_the_launchers_unless_it_is_said(self):
        keyboard, terminal = pty.openpty()
        try:
            self.assertEqual(self.readers(stdin=terminal), ["''", "''"])
            os.write(keyboard, b"typed\n")
            code, out, err = self.run_line("--stdin=0", "sh", "-c", 'read -r line; echo "got $line"', stdin=terminal)
            self.assertEqual((code, out), (0, "got typed\n"), err)
        finally:
            os.close(keyboard)
            os.close(terminal)

    def test_in_a_script_a_loops_input_is_left_by_stdin_none(self):
        loop = 'while read -r line; do {} {} true; echo "$line"; done'
        for flag, lines in (("--stdin=none", "1\n2\n3\n"), ("", "1\n2\n3\n")):
            done = subprocess.run(["bash", "-c", loop.format(program("ddprun"), flag)], input="1\n2\n3\n", text=True,
                                  capture_output=True, env=self.environment, timeout=support.HANG_GUARD)
            self.assertEqual(done.stdout, lines)
        eats = 'while read -r line; do {} {} cat > /dev/null; echo "$line"; done'
        for flag, lines in (("--stdin=none", "1\n2\n3\n"), ("", "1\n")):
            done = subprocess.run(["bash", "-c", eats.format(program("ddprun"), flag)], input="1\n2\n3\n", text=True,
                                  capture_output=True, env=self.environment, timeout=support.HANG_GUARD)
            self.assertEqual(done.stdout, lines, flag)

    @unittest.skipUnless(shutil.which("bash"), "bash is not installed")
    def test_a_heredoc_reaches_the_program(self):
        done = subprocess.run(["bash", "-c", f"{program('ddprun')} --nproc-per-node=2 cat <<'END'\na line\nEND\n"],
                              text=True, capture_output=True, env=self.environment, timeout=support.HANG_GUARD)
        self.assertEqual((done.returncode, done.stdout), (0, "a line\n"), done.stderr)


if __name__ == "__main__":
    support.main()
