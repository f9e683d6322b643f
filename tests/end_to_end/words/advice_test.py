"""What a line tells to type works when it is typed, on this machine; and what it names is there."""

import os
import re
import shlex
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from habits_test import HABITS, HabitsTest
from support import program

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
SOURCES = ("apps/cli", "apps/ddprun", "apps/ddpctl", "launcher", "rendezvous", "collectives")
# Options of other programs, which our lines name with these, and of examples.
OTHERS = set("--shm-size --ipc --ulimit --cpus --memory --gpus --gres --mem --ntasks-per-node --gpus-per-node --map-by --tasks-per-node "
             "--rs_per_host --tasks_per_rs --ppn --local-rank --local_rank --args --log --port --name --upgrade".split())
# Lines of a user, and what in the answer is to be typed in place of all of it.
TYPED = (
    ("2 train.py", r"did you mean (--nproc-per-node 2)\?", "ddprun {} train.py"),
    ("nproc-per-node=2 train.py", r"did you mean (\S+)\?", "ddprun {} train.py"),
    ("--nproc-per-node= 2 train.py", r"did you mean (\S+)\?", "ddprun {} train.py"),
    ("help", r"did you mean (\S+)\?", "ddprun {}"),
    ("list", r"did you mean (ddpctl list)\?", "{}"),
    ("FOO=1 true", r"type (--env \S+),", "ddprun {} true"),
    ("'echo ran'", r"behind (bash -c)", "ddprun {} 'echo ran'"),
    ("-d true", r"here: (--detach)", "ddprun {} --dry-run true"),
    ("run train.py", r"did you mean (.*)\?", "{}"),
    ("./trian.py", r"did you mean (\S+)\?", "ddprun {}"),
    ("train", r"did you mean (\S+)\?", "ddprun {}"),
    ("--nproc-per-nude 2 train.py", r"did you mean (\S+)\?", "ddprun {} 2 train.py"),
    ("-nproc-per-node 2 train.py", r"two dashes here: (\S+)", "ddprun {} 2 train.py"),
    ("--spares 1 train.py", r"give (--nnodes 1:2)", "ddprun {} --spares 1 --dry-run train.py"),
    ("--tee --role x train.py", r"write (--tee=)VALUE", "ddprun {}3 --role x train.py"),
    ("-mx train.py", r"write (-m) as a word of its own", "ddprun {} train"),
    ("--lr 1 train.py", r"write it behind (train\.py)", "ddprun {} --lr 1"),
    ("--hosts a:0 train.py", r"write (a:8) for", "ddprun --dry-run --hosts {} train.py"),
    ("--hosts gpu1 gpu2 train.py", r"like (\S+)", "ddprun --dry-run --hosts {} train.py"),
    ("--hostfile bad train.py", r"write (slots=8)", "ddprun --dry-run --hostfile <(echo n1 {}) train.py"),
    ("--config yaml train.py", r"only (TOML) is read", "ddprun --config <(echo nnodes = 1 '# {}') train.py"),
    ("--config sign train.py", r"give (--role) on the command line", "ddprun {} $HOME train.py"),
    ("--log-dir ~none/x train.py", r"or (\./~) for a file", "ddprun --log-dir {} train.py"),
    ("./plain.sh", r"(chmod \+x) makes it so", "{} plain.sh && ddprun ./plain.sh"),
    ("./windows", r"(sed -i \S+ )FILE", "{} windows && ddprun ./windows"),
    ("--secret-file open true", r"(chmod 600 \S+)", "{} && ddprun --secret-file open true"),
    ("--auth required --nnodes 2 true", r"(--make-secret)", "XDG_CONFIG_HOME= HOME=$PWD ddprun {}"),
    ("--nproc-per-node 2 cat <(echo x)", r"write it to (a file)", "echo x > 'a file' && ddprun --nproc-per-node 2 cat '{}'"),
    ("--nproc-per-node gpu train.py", r"give (a number)", "a() {{ echo 2; }}; ddprun --nproc-per-node $({}) train.py"),
)
FILES = {"bad": "n1 slots=x\n", "yaml": "nnodes: 1\n", "sign": "role = '$HOME'\n", "plain.sh": "echo ran\n",
         "windows": "#!/bin/sh\r\necho ran\r\n", "open": "0123456789abcdefghijklmnopqrstuvwxyz\n"}


def literals():
    """The texts in the sources, joined as the compiler does."""
    for folder in SOURCES:
        for path, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if name.endswith((".cpp", ".hpp")):
                    with open(os.path.join(path, name), encoding="utf-8") as file:
                        text = re.sub(r'"\s*\n\s*"', "", file.read())
                    for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text):
                        yield name, literal


class Typed(HabitsTest):
    def setUp(self):
        super().setUp()
        for name, text in FILES.items():
            self.file(name, text, 0o755 if name == "windows" else 0o644)
        self.environment["PATH"] = os.path.dirname(program("ddprun")) + ":" + os.environ["PATH"]
        self.environment["HOME"] = self.folder

    def shell(self, line):
        done = subprocess.run(["bash", "-c", line], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=support.HANG_GUARD, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_what_is_told_works(self):
        for line, told, typed in TYPED:
            with self.subTest(line):
                code, _, err = self.shell("ddprun " + line)
                self.assertNotEqual(code, 0, err)
                advice = re.search(told, err)
                self.assertTrue(advice, err)
                code, _, err = self.shell(typed.format(advice.group(1)))
                self.assertEqual(code, 0, err)

    def test_what_another_launchers_habit_is_told_is_taken(self):
        more = ("--time 1:00:00", "--nodes 2-4", "-x NCCL_DEBUG", "--np all", "--wait x", "--rank x", "--port x", "--retries x")
        tried = 0
        for words in (*(words for words, _ in HABITS), *more):
            err = self.said(*words.split(" "), "train.py")[2]
            told = re.search(r"; here: (.*)$", err)
            for flag, value in re.findall(r"(--[a-z-]+)[ =]('[^']*'|[^\s,()]+)", told.group(1) if told else ""):
                if value.isupper() or value in ("in", "on") or re.fullmatch("N[ms]|MIN:MAX|NAME=VALUE|N\\|MIN:MAX|S:SIGNAL|S\\[:kill\\]", value):
                    continue  # It stands for something.
                tried += 1
                with self.subTest(words=words, told=told.group(1)):
                    given = shlex.split(value)[0]
                    more = ["--nnodes", "9"] if flag == "--node-rank" else []
                    code, _, err = self.said("--dry-run", *more, f"{flag}={given}", "train.py")
                    self.assertTrue(code == 0 or "No such file" in err or "node has no GPU" in err or "be resolved" in err, err)
        self.assertGreater(tried, 30)


class Named(unittest.TestCase):
    def test_every_option_that_a_text_names_is_there(self):
        flags = set()
        for words in (("ddprun", "--help"), ("ddprun", "doctor", "--help"), ("ddpbench", "--help"), ("ddpctl", "--help"),
                      *(("ddpctl", name, "--help") for name in ("list", "status", "logs", "events", "attach", "kill"))):
            text = subprocess.run([program(words[0]), *words[1:]], capture_output=True, text=True, check=True).stdout
            flags |= set(re.findall(r"--[a-z][a-z-]+", text))
        lacking = []
        for name, literal in literals():
            for flag in re.findall(r"(?<![\w-])--[a-z][a-z_-]+\b", literal if " " in literal.strip() else ""):
                if flag not in flags | OTHERS:
                    lacking.append((name, flag, literal[:80]))
        self.assertEqual(lacking, [])

    def test_every_limit_that_a_text_names_is_there(self):
        text = "\n".join(literal for _, literal in literals())
        settings = {name for names in re.findall(r"sysctl ((?:[a-z]+(?:\.[a-z_-]+)+[, ]*)+)", text) for name in re.findall(r"[a-z._-]+", names)}
        self.assertGreater(len(settings), 4)
        self.assertEqual([name for name in settings if not os.path.exists("/proc/sys/" + name.replace(".", "/"))], [])
        limits = set(re.findall(r"ulimit (-[A-Za-z]+)", text))
        self.assertGreater(len(limits), 6)
        for limit in limits:
            subprocess.run(["bash", "-c", f"ulimit {limit}"], capture_output=True, check=True)


if __name__ == "__main__":
    support.main()
