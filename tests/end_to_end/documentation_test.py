#!/usr/bin/env python3
"""What the programs print of their own options: READMEs, --help, manual pages and shell completions say the same."""

import os
import pty
import re
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

import support
from support import program

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROGRAMS = ("ddprun", "ddpctl", "ddpbench")
COMMANDS = ("list", "status", "logs", "events", "stacks", "attach", "kill")


def output_of(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=support.HANG_GUARD, check=False, **more)
    return done.returncode, done.stdout, done.stderr


def printed(name, *flags):
    code, out, err = output_of(program(name), *flags)
    assert (code, err) == (0, ""), (name, flags, code, err)
    return out


def long_flags(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z_-]*", text))


def helped(name):
    """The flags that help shows when it is asked for all, at the beginning of its entries."""
    text = printed(name, "--help")
    if name == "ddpctl":
        text += "".join(printed(name, command, "--help") for command in COMMANDS)
    return set().union(*(long_flags(line.split("  ")[1]) for line in text.splitlines() if re.match("  -", line)))


class Texts(unittest.TestCase):
    def test_the_table_of_each_readme_is_the_printed_one(self):
        script = os.path.join(ROOT, "scripts", "flag_tables.py")
        self.assertEqual(output_of(script, "--check", os.path.dirname(program("ddprun"))), (0, "", ""))

    def test_help_table_and_manual_have_the_same_options(self):
        for name in PROGRAMS:
            table = printed(name, "--print-flags").splitlines()[2:]
            flags = set().union(*(long_flags(row.split("` |")[0]) for row in table))
            self.assertEqual(flags, helped(name), name)
            manual = printed(name, "--print-man").replace("\\-", "-")
            version = printed(name, "--version").splitlines()[0]
            self.assertEqual(manual.splitlines()[:2], [f'.TH {name.upper()} 1 "" "{version}"'.replace("-", "\\-"), ".SH NAME"])
            self.assertRegex(manual, rf"\n\.SH SYNOPSIS\n{name} \[OPTIONS\]")
            heads = re.findall(r"^\.TP\n\\fB(.*?)\\fR", manual, re.MULTILINE)
            self.assertEqual(set().union(*map(long_flags, heads)), flags, name)

    def test_an_unknown_shell_is_refused(self):
        code, out, err = output_of(program("ddprun"), "--print-completion", "tcsh")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("--print-completion tcsh: must be bash, zsh or fish", err)

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_manuals_are_clean_troff(self):
        for name in PROGRAMS:
            code, out, err = output_of("groff", "-man", "-Tutf8", "-Kutf8", "-ww", "-P-c", input=printed(name, "--print-man"))
            self.assertEqual((code, err), (0, ""), name)
            out = re.sub(".\b", "", out)  # bold is struck twice
            for word in (name.upper() + "(1)", "SYNOPSIS", "--help", *(["EXAMPLES", "NOTES"] if name == "ddprun" else [])):
                self.assertIn(word, out)

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_manuals_pass_a_linter(self):
        for name in PROGRAMS:
            code, out, err = output_of("mandoc", "-man", "-T", "lint", "-W", "warning", input=printed(name, "--print-man"))
            complaints = [line for line in (out + err).splitlines() if "missing date" not in line]
            self.assertEqual(complaints, [], (name, code))


class Help(unittest.TestCase):
    def test_no_line_is_wider_than_80_columns(self):
        for words in ((), ("all",), ("--rdzv-conf",), ("restarts",)):
            for line in printed("ddprun", "--help", *words).splitlines():
                self.assertLessEqual(len(line), 80, line)
        for words in (("ddpctl", "--help"), ("ddpctl", "kill", "--help"), ("ddpbench", "--help"), ("ddprun", "doctor", "--help")):
            for line in printed(*words).splitlines():
                if " all_reduce " not in line and "nccl-tests" not in line and not line.startswith("Exit codes"):
                    self.assertLessEqual(len(line), 80, line)

    def test_h_is_a_screen_with_the_ten_options_that_people_use_and_examples(self):
        text = printed("ddprun", "-h")
        self.assertLessEqual(len(text.splitlines()), 25, text)
        for line in text.splitlines():
            self.assertLessEqual(len(line), 80, line)
        entries = [line for line in text.splitlines() if re.match("  -", line)]
        self.assertEqual(len(entries), 10, text)
        self.assertIn("--nproc-per-node", entries[0])
        whole = printed("ddprun", "--help")
        for name in re.findall(r"--[a-z]+(?:-[a-z]+)*", "\n".join(entries)):
            self.assertRegex(whole, rf"(?m)^  (-\w, )?{name}\b")
        # Texts stand in one column, whatever the bytes of a placeholder.
        for shown in (entries, [line for line in whole.splitlines() if re.match("  -", line)]):
            columns = {re.match(r"  \S.*?  +", line).end() for line in shown if re.match(r"  \S.*?  +\S", line)}
            self.assertEqual(len(columns), 1, columns)
        examples = re.findall(r"^  (?:srun \S+ \S+ )?ddprun (.*?)(?:  |$)", text, re.MULTILINE)
        self.assertEqual(len(examples), 5)
        for line in examples:
            self.assertNotIn("no such", output_of(program("ddprun"), "--explain", *line.split())[2], line)

    def test_help_is_all_of_it(self):
        self.assertEqual(printed("ddprun", "--help"), printed("ddprun", "--help", "all"))
        self.assertEqual(printed("ddprun", "--help"), printed("ddprun", "-h", "all"))
        self.assertEqual(printed("ddprun", "doctor", "-h"), printed("ddprun", "doctor", "--help"))

    def test_help_on_an_option_or_a_group_is_its_whole_text(self):
        for words in (("join-timeout",), ("--join-timeout",), ("--join_timeout",)):
            text = printed("ddprun", "--help", *words)
            self.assertTrue(text.startswith("--join-timeout S\n"), text)
            for part in ("(900)", "its own count.", "DDPRUN_JOIN_TIMEOUT"):
                self.assertIn(part, text)
        self.assertEqual(printed("ddprun", "--help", "t"), printed("ddprun", "--help=tee"))
        group = printed("ddprun", "--help", "restarts")
        for option in ("--max-restarts N", "--on-failure PROGRAM", "PET_MAX_RESTARTS", "counts."):
            self.assertIn(option, group)
        self.assertEqual(printed("ddprun", "-h", "who-takes-part"), printed("ddprun", "-h", "Who takes part"))
        code, out, err = output_of(program("ddprun"), "--help", "join-timeuot")
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(err, "ddprun: --help join-timeuot: no such option and no such group; did you mean join-timeout?\n")
        # Into a line that starts a program --help is only added.
        self.assertEqual(printed("ddprun", "--nproc-per-node=2", "--help", "train.py", "--lr=1"), printed("ddprun", "--help"))

    def on_terminal(self, *words, **environment):
        """What a terminal gets to see."""
        near, far = pty.openpty()
        with subprocess.Popen([program("ddprun"), *words], stdin=far, stdout=far, stderr=far,
                              env={**os.environ, **environment}) as process:
            os.close(far)
            seen = b""
            try:
                while chunk := os.read(near, 65536):
                    seen += chunk
            except OSError:  # Nobody has the other end any more.
                pass
            self.assertEqual(process.wait(support.HANG_GUARD), 0)
        os.close(near)
        return seen.decode().replace("\r\n", "\n")

    def test_headings_are_bold_on_a_terminal_only(self):
        plain = printed("ddprun", "--help", "all")
        self.assertNotIn("\x1b", plain)
        shown = self.on_terminal("--help", "all", DDPRUN_PAGER="", TERM="xterm", NO_COLOR="")
        heads = re.findall(r"\x1b\[1m(.*)\x1b\[m", shown)
        for heading in ("Options", "Examples", "Restarts"):
            self.assertIn(heading, heads)
        self.assertEqual(re.sub(r"\x1b\[1?m", "", shown), plain)
        for environment in ({"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}):
            self.assertEqual(self.on_terminal("--help", "all", DDPRUN_PAGER="", **environment), plain)

    def test_help_on_an_exit_code_is_the_manuals(self):
        for code, texts in ((0, ["every worker on every node ended with 0"]), (1, ["the first worker that failed"]),
                            (77, ["not admitted: another --rdzv-id", "the first worker"]),
                            (143, ["Exit code 143, 128+n for SIGTERM", "ended by signal n, not all workers with 0", "the first worker"])):
            text = " ".join(printed("ddprun", "--help", str(code)).split())
            for part in texts:
                self.assertIn(part, text)
        code, _, err = output_of(program("ddprun"), "--help", "256")
        self.assertEqual((code, err.count("\n")), (2, 1))

    def test_help_is_paged_on_a_terminal_only(self):
        self.enterContext(unittest.mock.patch.dict(os.environ, {"NO_COLOR": "1"}))
        whole = printed("ddprun", "--help", "all")
        for environment in ({"DDPRUN_PAGER": "sed s/^/paged:/", "PAGER": "false"}, {"PAGER": "sed s/^/paged:/"}):
            self.assertEqual(self.on_terminal("--help", "all", **environment),
                             "".join(f"paged:{line}" for line in whole.splitlines(True)))
        for pager in ("", "cat", "/no/such/pager"):
            self.assertIn(whole, self.on_terminal("--help", "all", DDPRUN_PAGER=pager))
        # The version is to be seen, not a text to be read.
        self.assertEqual(self.on_terminal("--version", PAGER="sed s/^/paged:/"), printed("ddprun", "--version"))
        # A reader who has seen enough is no failure.
        self.assertEqual(self.on_terminal("--help", "all", DDPRUN_PAGER="head -n 1").count("\n"), 1)
        with unittest.mock.patch.dict(os.environ, {"DDPRUN_PAGER": "sed s/^/paged:/"}):
            self.assertEqual(printed("ddprun", "--help", "all"), whole)


class Completion(unittest.TestCase):
    CASES = (("ddprun --nn", {"--nnodes"}), ("ddprun --rdzv-e", {"--rdzv-endpoint"}),
             ("ddprun --nnodes 2 --nod", {"--node-rank"}), ("ddprun --nnodes=2 --nod", {"--node-rank"}),
             ("ddpctl kill --no", {"--no-wait"}), ("ddpctl logs some-id --fo", {"--follow"}), ("ddpctl stat", {"status"}),
             ("ddpbench all_reduce --min", {"--minbytes"}))

    def script(self, name, shell):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        path = os.path.join(folder, f"_{name}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(printed(name, "--print-completion", shell))
        return path

    def in_bash(self, line):
        # As readline cuts a line up: = is a word of its own.
        words = [part for word in line.split(" ") for part in re.split("(=)", word)]
        name = words[0]
        quoted = " ".join(f"'{word}'" for word in words)
        code, out, err = output_of("bash", "--norc", "-c", f"""
            set -eu
            source {self.script(name, "bash")}
            [[ $(complete -p {name}) == *"-F _{name} {name}" ]]
            COMP_WORDS=({quoted}) COMP_CWORD={len(words) - 1}
            _{name} {name} '' '' || true
            printf '%s\\n' "${{COMPREPLY[@]}}" """)
        self.assertEqual((code, err), (0, ""), line)
        return set(out.split())

    def test_bash(self):
        for line, expected in self.CASES:
            self.assertEqual(self.in_bash(line), expected, line)
        # Values, and the words of the program, are none of ddprun's options.
        for line in ("ddprun --role --nn", "ddprun train.py --nn", "ddprun --nnodes 2 train.py --nn", "ddprun tr"):
            self.assertEqual(self.in_bash(line), set(), line)

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        for line, expected in self.CASES:
            name = line.split()[0]
            code, out, err = output_of("fish", "--no-config", "-c", f'source {self.script(name, "fish")}; complete -C "{line}"')
            self.assertEqual((code, err), (0, ""), line)
            self.assertEqual({row.split("\t")[0] for row in out.splitlines()}, expected, line)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        for name in PROGRAMS:
            path = self.script(name, "zsh")
            self.assertEqual(output_of("zsh", "-n", path), (0, "", ""))
        for line, expected in self.CASES:
            name = line.split()[0]
            self.assertEqual(self.in_zsh(line, self.script(name, "zsh")), expected, line)

    @staticmethod
    def in_zsh(line, path):
        """What Tab makes of the line, in a shell with a terminal of its own."""
        code, out, err = output_of("zsh", "-f", "-c", f"""
            zmodload zsh/zpty
            zpty shell 'zsh -f -i'
            zpty -w shell "PS1= PS2= ; stty -echo -onlcr; fpath=({os.path.dirname(path)} \\$fpath)"
            zpty -w shell 'autoload -U compinit && compinit -u -D'
            zpty -w shell 'show() {{ print -r -- "line<$BUFFER>"; zle .kill-whole-line }}; zle -N show; bindkey "^X" show'
            zpty -w shell 'print rea""dy'  # not as the terminal may echo it
            zpty -r -m shell seen '*ready*'
            zpty -w -n shell $'{line}\\t\\x18'
            zpty -r -m shell seen '*line<[^$]*>*'
            print -r -- "$seen" """)
        found = re.findall("line<([^$>]*)>", out)
        assert code == 0 and found, (line, code, out, err)
        return {found[-1].split()[-1].rstrip("=")}


if __name__ == "__main__":
    support.main()
