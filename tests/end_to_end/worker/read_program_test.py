"""A program that is read from standard input or from a pipe is there once, and every worker runs all of it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from support import free_port, program

PYTHON = "import os\nprint('rank', os.environ['RANK'])\n"
SHELL = "echo rank $RANK\n"
RANKS = ["rank 0", "rank 1"]


class ReadProgram(support.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)

    def run_with(self, text, *words, name="ddprun", flags=("--nproc-per-node", "2"), env=None):
        done = subprocess.run([program(name), *flags, *words], input=text, text=True, capture_output=True, cwd=self.folder,
                              env={**self.environment, **(env or {})}, timeout=support.HANG_GUARD)
        return done.returncode, sorted(done.stdout.splitlines()), done.stderr

    def assert_refused(self, told, text, *words, code=2, **options):
        got, out, err = self.run_with(text, *words, **options)
        self.assertEqual((got, out, err.count("\n")), (code, [], 1), err)
        self.assertIn(told, err)
        return err

    def test_python_reads_it_by_every_name(self):
        for words in (("python3",), ("python3", "-"), ("python3", "-u", "-W", "ignore", "-"), ("python3", "/dev/stdin"),
                      ("env", "A=B", "python3", "-"), ("nice", "-n", "1", "python3"), ("-",), ("/dev/stdin",),
                      ("/proc/self/fd/0",), ("--python", "-")):
            with self.subTest(words):
                self.assertEqual(self.run_with(PYTHON, *words), (0, RANKS, ""))

    def test_a_shell_reads_it_by_every_name(self):
        for words in (("sh",), ("bash", "-s"), ("bash", "-es", "--", "x"), ("bash", "-o", "pipefail", "/dev/stdin"), ("sh", "-")):
            with self.subTest(words):
                self.assertEqual(self.run_with(SHELL, *words), (0, RANKS, ""))

    def test_a_command_of_a_shells_text_reads_it(self):
        for words in (("bash", "-c", "true && python3 -"), ("sh", "-c", "A=B; exec python3 -u -"), ("bash", "-c", "python3 - | cat")):
            with self.subTest(words):
                self.assertEqual(self.run_with(PYTHON, *words), (0, RANKS, ""))
        for words in (("bash", "-c", "cat | python3 - 2>&1 | tee log.$RANK"), ("bash", "-c", "cd .\npython3"), ("awk", "-f", "-")):
            text = 'BEGIN { print "rank " ENVIRON["RANK"] }\n' if words[0] == "awk" else PYTHON
            self.assertEqual(self.run_with(text, *words), (0, RANKS, ""))
        self.assertEqual(self.run_with(PYTHON, "bash", "-c", "python3 > log.$RANK; cat log.$RANK"), (0, RANKS, ""))
        self.assertEqual(self.run_with("", "bash", "-c", "true && python3 -"), (0, [], ""), "it may never be run")
        text = "bash -c 'cat > rank$RANK; wc -c < rank$RANK'"
        self.assertEqual(self.run_with("12", "sh", "-c", text), (0, ["0", "2"], ""), "data is rank 0's")

    def test_a_text_that_may_run_it_in_rank_0_alone_is_told_of(self):
        told = "ddprun: bash: only rank 0 reads standard input, and the text may run a program from it; "
        for text in ("A=$(echo); python3 -", "for i in 1; do python3 -; done", "{ python3 -; } 2>&1"):
            with open(os.path.join(self.folder, "program"), "w+", encoding="ascii") as file:
                file.write(PYTHON)
                file.seek(0)
                done = subprocess.run([program("ddprun"), "--nproc-per-node", "2", "bash", "-c", text], stdin=file, text=True,
                                      capture_output=True, env=self.environment, timeout=support.HANG_GUARD)
            self.assertEqual((done.returncode, done.stdout), (0, "rank 0\n"), text)
            self.assertEqual((done.stderr[:len(told)], done.stderr.count("\n")), (told, 1), text)
        # One worker is all there are; the user has said who reads; nothing stands there; the text runs a file.
        text = ("bash", "-c", "A=$(echo); python3 -")
        for stdin, flags, words in ((PYTHON, (), text), (PYTHON, ("--nproc-per-node", "2", "--stdin", "0"), text),
                                    ("", ("--nproc-per-node", "2"), text),
                                    (PYTHON, ("--nproc-per-node", "2"), ("bash", "-c", "A=$(echo); python3 -c pass"))):
            code, _, err = self.run_with(stdin, *words, flags=flags)
            self.assertEqual((code, err), (0, ""))

    def test_a_task_of_a_launcher_reads_it(self):
        def run(text, *words, rank=0):
            return self.run_with(text, *words, flags=("--adapt",), env={"PMI_RANK": str(rank), "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2",
                                                                       "MPI_LOCALRANKID": str(rank)})
        for words in (("python3", "-"), ("-",), ("bash", "-c", "python3 2>&1 | cat")):
            self.assertEqual(run(PYTHON, *words, rank=1), (0, ["rank 1"], ""))
        # mpirun gives it to its first task, and nothing to the others.
        code, out, err = run("", "python3", "-", rank=1)
        self.assertEqual((code, out, err.count("\n")), (2, [], 1), err)
        self.assertIn("python3 -: its program is to be read from standard input, which is empty, as task launchers", err)
        self.assertEqual(run("data", "cat", rank=1), (0, ["data"], ""), "what is no program stays where it is")
        with open(os.path.join(self.folder, "who.py"), "w", encoding="ascii") as file:
            file.write(PYTHON)
        for runs in ("", "python3 "):
            done = subprocess.run(["bash", "-c", f"exec {program('ddprun')} --adapt {runs}<(cat who.py)"], capture_output=True, text=True,
                                  cwd=self.folder, stdin=subprocess.DEVNULL, timeout=support.HANG_GUARD,
                                  env={**self.environment, "PMI_RANK": "0", "PMI_SIZE": "1"})
            self.assertEqual((done.returncode, done.stdout), (0, "rank 0\n"), done.stderr)

    def test_data_for_hosts_is_not_lost_without_a_word(self):
        told = "ddprun: --hosts: workers read nothing, though standard input has something; "
        for flags in (("--hosts", "localhost"), ("--hosts", "localhost:2")):
            code, out, err = self.run_with("data\n", "wc", "-c", flags=flags)
            self.assertEqual((code, set(out)), (0, {"0"}), err)
            self.assertEqual((err[:len(told)], err.count("\n")), (told, 1), err)
        # What comes after the start is told of at the end.
        reader, writer = os.pipe()
        os.mkfifo(os.path.join(self.folder, "fifo"))
        job = subprocess.Popen([program("ddprun"), "--hosts", "localhost", "sh", "-c", "echo runs; read x < fifo"],
                               stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, env=self.environment)
        os.close(reader)
        self.assertEqual(job.stdout.readline(), "runs\n")
        os.write(writer, b"data\n")
        with open(os.path.join(self.folder, "fifo"), "w", encoding="ascii") as fifo:
            fifo.write("go\n")
        _, err = job.communicate(timeout=support.HANG_GUARD)
        os.close(writer)
        self.assertEqual((job.returncode, err[:len(told)], err.count("\n")), (0, told, 1), err)
        for text, words in (("", ("wc", "-c")), (PYTHON, ("python3", "-"))):
            self.assertEqual(self.run_with(text, *words, flags=("--hosts", "localhost"))[::2], (0, ""))

    def test_arguments_are_the_programs(self):
        text = "import sys\nprint('rank', len(sys.argv), sys.argv[1:])\n"
        for words in (("-", "a", "b"), ("python3", "-", "a", "b")):
            self.assertEqual(self.run_with(text, *words), (0, ["rank 3 ['a', 'b']"] * 2, ""))

    def test_a_pipe_of_the_shells_is_read_for_all(self):
        for runs in ("", "python3 "):
            line = f"exec {program('ddprun')} --nproc-per-node 2 {runs}<(cat who.py) 7"
            with open(os.path.join(self.folder, "who.py"), "w", encoding="ascii") as file:
                file.write(PYTHON)
            done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=self.folder, env=self.environment,
                                  stdin=subprocess.DEVNULL, timeout=support.HANG_GUARD)
            self.assertEqual((done.returncode, sorted(done.stdout.splitlines())), (0, RANKS), done.stderr)

    def test_a_second_round_runs_it_again(self):
        text = "import os\nprint('round', os.environ['DDPRUN_ROUND'])\nos._exit(os.environ['DDPRUN_ROUND'] == '0')\n"
        code, out, err = self.run_with(text, "-", flags=("--nproc-per-node", "2", "--max-restarts", "1", "--min-uptime", "0"))
        self.assertEqual((code, out[-2:]), (0, ["round 1", "round 1"]), err)

    def test_the_hosts_of_a_start_get_it(self):
        rsh = os.path.join(self.folder, "rsh")
        with open(rsh, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\nexec /bin/sh -c "$2"\n')
        os.chmod(rsh, 0o755)
        flags = ("--rsh", rsh, "--master-addr", "127.0.0.1", "--hosts", "a,b", "--nproc-per-node", "1")
        # The variable contradicts the list of hosts, which is stronger, and all is read once more.
        for words, text, env in ((("-",), PYTHON, {}), (("bash", "-s"), SHELL, {}), (("-",), PYTHON, {"DDPRUN_NNODES": "3"})):
            self.assertEqual(self.run_with(text, *words, flags=flags, env=env)[:2], (0, RANKS))

    def test_a_detached_job_has_it(self):
        environment = {"DDPRUN_JOBS_DIR": self.folder}
        code, out, err = self.run_with(SHELL + "test -e go || sleep 0\n", "bash", "-s", flags=("--detach", "--nproc-per-node", "2"),
                                       env=environment)
        self.assertEqual((code, len(out)), (0, 1), err)
        done = subprocess.run([program("ddpctl"), "attach", out[0]], capture_output=True, text=True,
                              env={**self.environment, **environment}, timeout=support.HANG_GUARD)
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())), (0, RANKS), done.stderr)

    def test_data_for_a_detached_job_is_not_lost_without_a_word(self):
        reader, writer = os.pipe()
        os.write(writer, b"data\n")  # Nobody waits for what comes later.
        os.close(writer)
        done = subprocess.run([program("ddprun"), "--detach", "true"], stdin=reader, capture_output=True, text=True,
                              env={**self.environment, "DDPRUN_JOBS_DIR": self.folder}, timeout=support.HANG_GUARD)
        os.close(reader)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "ddprun: --detach: workers read nothing, though standard input has something; "
                              "give it to them in a file\n")

    def test_what_cannot_be_given_to_all_is_refused(self):
        self.assert_refused("standard input, which is empty", "", "python3")
        self.assert_refused("has over 8388608 bytes", "#" * (8 * 1024 * 1024 + 1), "python3")
        self.assert_refused("--no-python", SHELL, "--no-python", "/dev/stdin")
        err = self.assert_refused("its first line is for bash", "#!/usr/bin/env bash\n" + SHELL, "/dev/stdin")
        advice = re.search("name that in front: (.*)$", err).group(1).split()
        self.assertEqual(self.run_with(SHELL, *advice), (0, RANKS, ""), "what is advised works")
        self.assert_refused("only PROGRAM can be", SHELL, "--program", "1:sh", "true")

    def test_who_is_said_to_read_it_reads_it(self):
        code, out, err = self.run_with(SHELL, "--stdin", "0", "sh")
        self.assertEqual((code, out), (0, ["rank 0"]), err)

    def test_what_reads_no_program_is_not_waited_for(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, writer)
        for words in (("python3", "--version"), ("python3", "-V"), ("bash", "--version"), ("python3", "-c", "pass"),
                      ("sh", "-c", "true"), ("python3", "-m", "this")):
            done = subprocess.run([program("ddprun"), *words], stdin=reader, capture_output=True, env=self.environment,
                                  timeout=support.HANG_GUARD)
            self.assertEqual(done.returncode, 0, words)
        os.close(reader)

    def test_agents_that_are_started_by_hand_read_their_own(self):
        port = free_port()
        agents = [subprocess.Popen([program("ddprun"), "--nnodes=2", f"--node-rank={node}", "--master-addr=127.0.0.1",
                                    f"--master-port={port}", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=self.environment) for node in range(2)]
        for agent in agents:
            agent.stdin.write(PYTHON)
            agent.stdin.close()
        said = [agent.stdout.read().strip() for agent in agents]
        self.assertEqual(([agent.wait() for agent in agents], said), ([0, 0], RANKS))
        for agent in agents:
            agent.stdout.close()


if __name__ == "__main__":
    support.main()
