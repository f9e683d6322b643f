"""Nodes of one job that are not alike: one line warns of each difference, and --strict-env refuses."""

import os
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from agents_test import AgentsTest
from elastic_test import PREEMPTED, Elastic
from support import program, worker


class Differences(AgentsTest):
    def setUp(self):
        super().setUp()
        self.environment = {name: value for name, value in self.environment.items() if not name.startswith("NCCL_")}

    def run_both(self, words, flags=((), ()), variables=({}, {})):
        """A job of two agents; the exit codes and what they said on stderr, node 0's first."""
        agents = [self.agent(rank, *words[rank], flags=flags[rank], env=variables[rank]) for rank in (0, 1)]
        return [agent.wait() for agent in agents], [agent.err() for agent in agents]

    def run_same(self, *rest):
        return self.run_both((worker("exit", "0"), worker("exit", "0")), *rest)

    def test_node_0_warns_of_each_variable_that_differs(self):
        codes, errors = self.run_same(((), ("-q",)), ({"NCCL_DEBUG": "WARN", "NCCL_ALGO": "Ring", "NCCL_NET": "x"},
                                                      {"NCCL_DEBUG": "VERSION", "NCCL_NET": "x"}))
        self.assertEqual(codes, [0, 0])
        self.assertEqual(errors[1], "")
        self.assertRegex(errors[0], r'\Addprun: nodes differ in NCCL_ALGO: node 1 \(.+\) has it not set, node 0 \(.+\) "Ring"\n'
                                    r'ddprun: nodes differ in NCCL_DEBUG: node 1 \(.+\) has "VERSION", node 0 \(.+\) "WARN"\Z')

    def test_what_differs_by_nature_is_no_difference(self):
        codes, errors = self.run_same(((), ()), ({"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1", "HOME": "/"}))
        self.assertEqual((codes, errors), ([0, 0], ["", ""]))

    def test_strict_env_refuses_the_job_on_all_nodes(self):
        codes, errors = self.run_both((worker("say", "ran"), worker("say", "ran")), (("--strict-env",), ()),
                                      ({"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "2"}))
        self.assertEqual(codes, [77, 77])
        for agent, err in zip(self.launchers, errors):
            self.assertEqual(agent.out(), "")
            self.assertRegex(err, r"\Addprun: the job is refused by --strict-env on node 0: nodes differ in OMP_NUM_THREADS: "
                                  r'node 1 \(.+\) has "2", node 0 \(.+\) "1"\Z')

    def test_strict_env_lets_nodes_run_that_are_alike(self):
        self.assertEqual(self.run_same((("--strict-env",), ("--strict-env",))), ([0, 0], ["", ""]))

    def test_how_the_program_is_run(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "train.py")
            with open(script, "w", encoding="ascii") as file:
                file.write("pass\n")
            for flag, here, there in (("--run-path", "given", "not given"), ("--legacy-launch", "--local-rank", "not given")):
                codes, errors = self.run_both(([script], [script]), ((), (flag,)))
                self.assertEqual(codes, [0, 0], errors)
                self.assertRegex(errors[0], rf'nodes differ in {flag}: node 1 \(.+\) has "{here}", node 0 \(.+\) "{there}"')
                allowed = ("--allow-different",)
                codes, errors = self.run_both(([script], [script]), (allowed, (flag, *allowed)))
                self.assertEqual((codes, errors), ([0, 0], ["", ""]))

    def test_a_program_of_the_same_name_with_other_contents(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("a", "exit 0"), ("b", "exit 0 # otherwise")):
                os.mkdir(os.path.join(folder, name))
                path = os.path.join(folder, name, "run")
                with open(path, "w", encoding="ascii") as file:
                    file.write(f"#!/bin/sh\n{text}\n")
                os.chmod(path, 0o755)
            paths = [{"PATH": f"{os.path.join(folder, name)}:{os.environ['PATH']}"} for name in ("a", "b")]
            codes, errors = self.run_both((["run"], ["run"]), ((), ()), paths)
            self.assertEqual(codes, [0, 0])
            self.assertRegex(errors[0], r'nodes differ in the executable: node 1 \(.+\) has ".*/b/run", node 0 \(.+\) ".*/a/run"')
            self.assertRegex(errors[0], r'nodes differ in the executable\'s contents: node 1 \(.+\) has "[0-9a-f]{16}, 29 bytes"')
            codes, errors = self.run_both((["run"], ["run"]), (("--allow-different",), ()), paths)
            self.assertEqual((codes, errors), ([0, 0], ["", ""]))

    def test_a_large_program_costs_no_time(self):
        # Sparse: it would take seconds to read whole, and is read in parts.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "large")
            shutil.copy(program("worker_stub"), path)
            os.truncate(path, 1 << 40)
            words = [path, "exit", "0"]
            self.assertEqual(self.run_both((words, words)), ([0, 0], ["", ""]))


class Newcomers(Elastic):
    def setUp(self):
        super().setUp()
        self.environment = {name: value for name, value in self.environment.items() if not name.startswith("NCCL_")}

    def begin(self, *flags):
        """A job of one node, which may become one of three."""
        host = self.host("1:3", *flags, env={"NCCL_DEBUG": "WARN"})
        self.runs(host, 0, 1, 0, 1)
        return host

    def end(self, *agents):
        for agent in agents:
            agent.send(signal.SIGTERM)
        self.assertEqual([agent.wait() for agent in agents], [PREEMPTED] * len(agents))

    def test_one_that_differs_is_warned_of_once(self):
        host = self.begin()
        second = self.node("1:3", env={"NCCL_DEBUG": "VERSION"})
        self.runs(second, 1, 2, 1, 2)
        third = self.node("1:3", env={"NCCL_DEBUG": "WARN"})
        self.runs(third, 2, 3, 2, 3)
        self.runs(second, 1, 3, 1, 3)
        self.runs(host, 0, 3, 0, 3)
        self.end(host, second, third)
        self.assertRegex(host.err(), r'nodes differ in NCCL_DEBUG: node 1 \(.+\) has "VERSION", the others "WARN"\n')
        for agent in (host, second, third):
            self.assertEqual(agent.err().count("nodes differ"), int(agent is host))

    def test_strict_env_refuses_it_alone(self):
        host = self.begin("--strict-env")
        other = self.node("1:3", env={"NCCL_DEBUG": "VERSION"})
        self.assertEqual(other.wait(), 77)
        reason = r'--strict-env lets in no node that differs: nodes differ in NCCL_DEBUG: \S+ has "VERSION", the others "WARN"$'
        self.assertRegex(other.err(), r"\Addprun: " + reason)
        host.wait_for_line(r"^ddprun: refused an agent on \S+ \(pid \d+\): " + reason)
        second = self.node("1:3", env={"NCCL_DEBUG": "WARN"})
        self.runs(second, 1, 2, 1, 2)
        self.runs(host, 0, 2, 0, 2)
        self.end(host, second)
        self.assertEqual(host.out().count("place 0 of 1 nodes"), 1)


if __name__ == "__main__":
    support.main()
