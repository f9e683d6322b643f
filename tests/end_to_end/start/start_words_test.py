"""What the starter of a job is told on its command line: variables, what cannot be meant, and the record of all that."""

import json
import os
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from start_test import HERE, StartTest
from support import run_folders, worker


class StartRecorded(StartTest):
    def test_each_host_records_the_words_of_the_start(self):
        say = ("sh", "-c", 'echo "$RANK of $WORLD_SIZE on $HOSTNAME in $PWD with $PET_ROLE"')
        words = ["--rsh", "./rsh", *HERE, "--hosts", "a:2,b", "--log-dir", "logs", *say]
        env = {"PET_ROLE": "some", "DDPRUN_SECRET": "hidden", "MY_TOKEN": "hidden"}
        code, out, err = self.run_job(*words, cwd=self.folder, env=env)
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"^ddprun: --store door: [^\n]*$")  # since there is a secret
        first = sorted(out.splitlines())
        self.assertEqual(len(first), 3, out)
        folders = run_folders(self.path("logs"))
        self.assertEqual(len(folders), 2)
        for rank, folder in enumerate(folders):
            self.assertRegex(os.path.basename(folder), f"^none_node{rank}_{socket.gethostname()}_[^_]*$")
            with open(os.path.join(folder, "run.json"), encoding="utf-8") as file:
                text = file.read()
            record = json.loads(text)
            self.assertEqual((record["words"], record["directory"], record["node_rank"]),
                             (words, os.path.realpath(self.folder), rank))
            self.assertEqual(("PET_ROLE" in record["variables"], "hidden" in text), (True, False))

    def test_a_command_line_that_is_too_long_to_be_passed_on_is_not_recorded(self):
        words = [f"{number} " + "x" * 100_000 for number in range(2)]
        code, out, err = self.run_start("--hosts", "a", "--log-dir", self.path("logs"), "sh", "-c", "echo $#", *words)
        self.assertEqual((code, out), (0, "1"), err)
        self.assertRegex(err, r"^(\[a\] )?ddprun: .*/run\.json is not written: the command line .* is too long")
        folder, = run_folders(self.path("logs"))
        self.assertEqual(os.listdir(folder), ["attempt_0"])


class StartVariables(StartTest):
    SHOW = ("bash", "-c", 'echo "$RANK ${A-none} ${B-none} ${C-none}"')

    def test_variables_of_all_and_of_some_ranks(self):
        words = ("--env", "A=1 2", "--env-rank", "1:A=x", "--env-rank", "1-2:B=", *self.SHOW)
        lines = ["0 1 2 none none", "1 x  none", "2 1 2  none"]
        for place in (("--nproc-per-node", "3"), ("--rsh", self.rsh, *HERE, "--hosts", "a,b:2")):
            code, out, err = self.run_job(*place, *words, env={"A": "0"})
            self.assertEqual((code, sorted(out.splitlines()), err), (0, lines, ""))

    def test_a_clean_environment(self):
        for place in ((), ("--rsh", self.rsh, *HERE, "--hosts", "a")):
            code, out, err = self.run_job(*place, "--clean-env", "--env", "B=2", *self.SHOW, env={"A": "0", "C": "1"})
            self.assertEqual((code, out, err), (0, "0 none 2 none", ""))

    def test_a_clean_environment_has_the_masks(self):
        script = os.path.join(self.folder, "masks.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write('import os\nprint(os.environ["CUDA_VISIBLE_DEVICES"])\n')
        for flags, masks in (((), ["4,6", "4,6"]), (("--gpu-bind", "single"), ["4", "6"])):
            code, out, err = self.run_job("--clean-env", "--nproc-per-node", 2, *flags, script, env={"CUDA_VISIBLE_DEVICES": "4,6"})
            self.assertEqual((code, sorted(out.splitlines()), err), (0, masks, ""))


class StartRefuses(StartTest):
    def refused(self, *arguments):
        code, out, err = self.run_job(*arguments, *worker("say", "never"))
        self.assertEqual((code, out), (2, ""), err)
        self.assertEqual(len(err.splitlines()), 1, err)
        return err

    def test_what_cannot_be_meant(self):
        file = self.path("hosts")
        with open(file, "w", encoding="ascii") as hosts:
            hosts.write("# two\na slots=2\nb slots=many\n")
        for words, text in (
                (("--hosts", "a:x"), "--hosts a:x: 'x' is no number of slots"),
                (("--hosts", "-oProxyCommand=x"), "is no name of a host"),
                (("--hostfile", file), f"{file}:3: 'slots=many' is no number of slots; write slots=8"),
                (("--hostfile", "/nowhere"), "--hostfile /nowhere: No such file"),
                (("--hostfile", self.folder), f"--hostfile {self.folder}: Is a directory"),
                (("--hosts", "a,b", "--nnodes", "3"), "--nnodes: 3 contradicts --hosts, which names 2"),
                (("--hosts", "a,b", "--node-rank", "1"), "--node-rank: contradicts --hosts"),
                (("--hosts", "a:2", "--nproc-per-node", "3"), "--nproc-per-node 3: contradicts --hosts, by which a has 2"),
                (("--hosts", "localhost,b"), "localhost is the first of the hosts, and b cannot reach it"),
                (("--hosts", "a:2,b:2", "--include", "c"), "--include c: 'c' is none of the hosts"),
                (("--include", "a"), "--include a: no hosts are named here"),
                (("--env", "A"), "--env A: must be NAME=VALUE"),
                (("--env", "API_KEY x"), "--env API_KEY(not shown): must be NAME=VALUE"),
                (("--env-rank", "0:API_KEY x"), "--env-rank 0:API_KEY(not shown): must be NAME=VALUE"),
                (("--env-rank", "A=1"), "--env-rank A=1: must be RANKS:NAME=VALUE")):
            with self.subTest(words=words):
                self.assertIn(text, self.refused(*words))

    def test_what_contradicts_is_refused_and_a_variable_is_passed_over(self):
        code, _, err = self.run_job("--hosts", "a", "--node-rank", "0", *worker("say", "never"))
        self.assertEqual(code, 2)
        self.assertIn("--node-rank: contradicts --hosts: nodes are numbered in the order of the hosts", err)
        code, _, err = self.run_job("--dry-run", "-v", "--hosts", "a", *worker("say", "never"), env={"PET_NODE_RANK": "0"})
        self.assertEqual(code, 0, err)

    def test_a_dry_run_of_many_hosts_takes_no_longer_for_each_of_them(self):
        """Where each one costs as much as the list is long, these take minutes."""
        hosts = 6000 if os.environ.get("DDPRUN_SANITIZED") else 60000
        code, out, err = self.run_job("--dry-run", "--hosts", f"n[1-{hosts}]:8", "train")
        self.assertEqual((code, out.count("\n") + 1, err), (0, hosts, ""))

    def test_a_dry_run_shows_the_agents(self):
        code, out, err = self.run_start("--hosts", "a:4,b:4", "--include", "a:1,3@b", "--dry-run", "train", "x")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out.splitlines(), [
            f"node {rank} on {host}: ddprun --nnodes=2 --node-rank={rank} "
            f"--master-addr=127.0.0.1 --nproc-per-node={workers} -- train x" for rank, host, workers in ((0, "a", 2), (1, "b", 4))])


if __name__ == "__main__":
    support.main()
