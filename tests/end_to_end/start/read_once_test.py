"""What the shell makes of <(…) can be read once: lists and options that come so count wherever they are needed again."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from start_test import HERE, StartTest
from support import program


class ReadOnce(StartTest):
    SHOW = "sh -c 'echo $RANK of $WORLD_SIZE, ${A-n} on $HOSTNAME'"

    def run_line(self, line, text="", **more):
        done = subprocess.run(["bash", "-c", f"exec {program('ddprun')} {line}"], input=text, capture_output=True, text=True,
                              cwd=self.folder, env={**self.environment, "HOSTNAME": "here", **more}, timeout=support.HANG_GUARD)
        return done.returncode, sorted(done.stdout.splitlines()), done.stderr

    def assert_runs(self, ranks, line, **more):
        code, out, err = self.run_line(f"{line} {self.SHOW}", **more)
        self.assertEqual((code, out), (0, ranks), err)

    def hosts(self, hosts):
        return f"--rsh {self.rsh} {' '.join(HERE)} {hosts}"

    def test_options_count_though_others_are_weighed_twice(self):
        ranks = ["0 of 2, x on here", "1 of 2, x on here"]
        # The command line's --verbose is stronger than the file's quiet, so all is read once more.
        options = "quiet = true\\nnproc-per-node = 2\\nenv = \"A=x\"\\n"
        self.assert_runs(ranks, f"--verbose --config <(printf '{options}')")
        self.assert_runs(ranks, "--verbose --config /dev/stdin", text=options.replace("\\n", "\n"))
        os.mkfifo(self.path("fifo"))
        with subprocess.Popen(["sh", "-c", f"printf '{options}' > fifo"], cwd=self.folder):
            self.assert_runs(ranks, "--verbose --config fifo")

    def test_hosts_get_the_options(self):
        ranks = ["0 of 3, x on a", "1 of 3, x on b", "2 of 3, x on b"]
        self.assert_runs(ranks, self.hosts("--hosts a,b:2") + " --config <(echo 'env = \"A=x\"')")
        self.assert_runs(ranks, self.hosts("--hosts a,b:2"), text="env = \"A=x\"\n", DDPRUN_CONFIG="/dev/stdin")

    def test_lists_of_hosts_and_orders_of_ranks(self):
        self.assert_runs(["0 of 2, n on a", "1 of 2, n on b"], self.hosts("--hostfile <(printf 'a\\nb\\n')"))
        self.assert_runs(["0 of 2, n on a", "1 of 2, n on b"], self.hosts("--verbose --hostfile /dev/stdin --config <(echo quiet=true)"),
                         text="a\nb\n")
        self.assert_runs(["0 of 1, n on here"], "--rank-order <(echo b)")

    def test_a_pipe_among_the_arguments_is_not_for_workers(self):
        for words in ("cat <(echo data)", "env A=1 cat --file=<(echo data)", "--nproc-per-node 2 tee >(cat)",
                      f"{self.hosts('--hosts a')} cat <(echo data)"):
            code, out, err = self.run_line(words)
            self.assertEqual((code, out, err.count("\n")), (2, [], 1), err)
            self.assertRegex(err, r"^ddprun: (cat|env|tee) (--file=)?/dev/fd/\d+: a pipe of this process's, which workers do not get; ")


if __name__ == "__main__":
    support.main()
