"""--port-range: every listener of a job stays within it, jobs share it, and who finds nothing free says so."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from node_network import NodeNetwork, isolate
from support import EndToEndTest, program, worker

support.HANG_GUARD = 120.0
USAGE, SYSTEM, UNAVAILABLE, PREEMPTED = 2, 71, 69, 75
LISTEN = """
import socket, sys
held = [socket.create_server(("", port)) for port in range(int(sys.argv[1]), int(sys.argv[2]) + 1)]
print("listens", flush=True)
sys.stdin.read()
"""
SECRET = "0123456789abcdef0123456789abcdef"


class PortRange(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.network = self.enterContext(NodeNetwork(2))

    def hold(self, node, first, last):
        """Another program has these ports."""
        stranger = self.network.run(node, [sys.executable, "-I", "-S", "-c", LISTEN, str(first), str(last)], stdin=-1, stdout=-1)
        self.addCleanup(stranger.communicate)
        self.assertEqual(stranger.stdout.readline(), b"listens\n")
        return stranger

    def listening(self, node):
        """All ports of a node where somebody listens, each with the program."""
        words = [*self.network.prefix(node), "ss", "-Hltnp"]
        rows = [row.split() for row in subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()]
        return {(int(row[3].rpartition(":")[2]), row[-1].split('"')[1] if '"' in row[-1] else "?") for row in rows}

    def agent(self, node, *flags, nnodes=2, ports="30000-30031", env=(), words=None):
        return self.launch("--nnodes", nnodes, "--port-range", ports, *flags, *(words or worker("print-env")),
                           prefix=self.network.prefix(node), env={**dict(env), "XDG_CONFIG_HOME": "/does/not/exist"})

    def ports_of(self, agents):
        """The MASTER_PORT that all workers have."""
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent.err())
        found = {port for agent in agents for port in re.findall(r"^MASTER_PORT=(\d+)$", agent.out(), re.MULTILINE)}
        self.assertEqual(len(found), 1, found)
        return int(found.pop())

    def test_every_listener_is_in_the_range(self):
        # Restarts make each agent a meeting place of its own, a secret makes doors, and ranks listen for each other.
        bench = (program("ddpbench"), "all_reduce", "-b", "8", "-e", "8", "-n", "1000000")
        agents = [self.agent(node, "--master-addr=10.78.0.1", f"--node-rank={node}", "--nproc-per-node=2", "--max-restarts=1",
                             "--shutdown-timeout=2", words=bench, env={"DDPRUN_SECRET": SECRET}) for node in range(2)]
        wait_until(lambda: all(sum(name == "ddpbench" for _, name in self.listening(node)) == 2 for node in range(2)))
        # The door and the job's port; the door and the meeting place.
        for node, own in enumerate((2, 2)):
            found = self.listening(node)
            self.assertEqual(sum(name != "ddpbench" for _, name in found), own, found)
            self.assertEqual([one for one in found if not 30000 <= one[0] <= 30031], [])
        self.assertIn(30000, {port for port, _ in self.listening(0)})
        agents[0].send(signal.SIGTERM)
        for agent in agents:
            agent.wait()

    def test_jobs_of_one_machine_share_a_range(self):
        with tempfile.TemporaryDirectory() as folder:
            go = os.path.join(folder, "go")
            words = worker("print-env", "say", "ready", "wait-for-file", go, "exit", 0)
            alone = [[self.agent(0, nnodes=1, words=words)] for _ in range(4)]  # so few that no job finds all of its 8 taken
            backends = {"static": ("--master-addr=10.78.0.1",), "c10d": ("--rdzv-endpoint=10.78.0.1",)}
            several = [[self.agent(node, f"--rdzv-backend={name}", f"--rdzv-id={name}{job}", *flags,
                                   *((f"--node-rank={node}",) if name == "static" else ()), words=words) for node in (1, 0)]
                       for name, flags in backends.items() for job in range(2)]
            jobs = [*alone, *several]
            for agents in jobs:
                for agent in agents:
                    agent.wait_for_line("^ready$")
            open(go, "w", encoding="ascii").close()
            found = [self.ports_of(agents) for agents in jobs]
        self.assertEqual(len(set(found)), len(jobs), found)
        self.assertEqual([port for port in found if not 30000 <= port <= 30031], [])

    def test_workers_hear_of_the_range_and_the_variable_is_as_good(self):
        for flags, env in ((("--port-range=30000-30003",), {}), ((), {"DDPRUN_PORT_RANGE": "30000-30003"})):
            code, out, err = self.run_job(*flags, *worker("print-env"), prefix=self.network.prefix(0), env=env)
            self.assertEqual(code, 0, err)
            self.assertIn("DDPRUN_PORT_RANGE=30000-30003", out.splitlines())
            self.assertRegex(out, r"(?m)^MASTER_PORT=3000[0-3]$")

    def test_an_exhausted_range_is_one_line_with_a_holder(self):
        stranger = self.hold(0, 30000, 30003)
        for flags in (("--nnodes=1",), ("--nnodes=1", "--listen=any", "--master-addr=10.78.0.1")):
            code, _, err = self.run_job("--port-range=30000-30003", *flags, "true", prefix=self.network.prefix(0))
            self.assertEqual(code, SYSTEM)
            self.assertEqual(err.count("\n"), 0, err)
            self.assertRegex(err, r"^ddprun: cannot listen on \S+: no port of --port-range 30000-30003 \(DDPRUN_PORT_RANGE\) is "
                                  rf"free; 3000[0-3] is held by pid {stranger.pid} \(.*\); take a larger range$")
        stranger = self.hold(0, 30004, 30031)
        code, _, err = self.run_job("--port-range=30004-30031", "--nnodes=2", "--rdzv-id=a", "--rdzv-backend=c10d",
                                    "--rdzv-endpoint=10.78.0.1", "true", prefix=self.network.prefix(0), env={"DDPRUN_AUTH": "off"})
        self.assertEqual((code, err.count("\n")), (SYSTEM, 0), err)
        self.assertIn(f"held by pid {stranger.pid} ", err)
        self.assertIn("is free, those of --port-range 30004-30031 for this job: cannot listen on ", err)

    def test_ranks_that_find_no_port_say_so(self):
        self.hold(0, 30001, 30003)
        code, _, err = self.run_job("--port-range=30000-30003", "--nproc-per-node=2", program("ddpbench"), "all_reduce",
                                    "-b", "8", "-e", "8", "-n", "1", prefix=self.network.prefix(0))
        self.assertNotEqual(code, 0)
        self.assertRegex(err, r"no port of --port-range 30000-30003 \(DDPRUN_PORT_RANGE\) is free; 3000\d is held by pid ")

    def test_communicators_that_are_split_off_are_in_the_range_too(self):
        # One is the job's, one each rank's own, and one each that of whatever follows from these.
        for last, code in (("30003", 1), ("30004", 0)):
            ended = self.run_job(f"--port-range=30000-{last}", "--nproc-per-node=2", program("c_program"),
                                 prefix=self.network.prefix(0))
            self.assertEqual(ended[0], code, ended)

    def test_an_agent_that_finds_no_meeting_place_says_so_and_runs(self):
        self.hold(1, 30000, 30031)
        agents = [self.agent(node, "--master-addr=10.78.0.1", f"--node-rank={node}", "--max-restarts=1", env={"DDPRUN_AUTH": "off"})
                  for node in range(2)]
        self.assertEqual(self.ports_of(agents), 30000)
        self.assertRegex(agents[1].err(), r"(?m)^ddprun: this node cannot lead the job after its host: cannot listen on 10.78.0.2: no "
                                          r"port of --port-range 30000-30031 \(DDPRUN_PORT_RANGE\) is free, the job's own ")

    def test_what_is_no_range_is_refused_in_one_line(self):
        for wrong in ("0-10", "9-1", "70000", "80", "1-70000", "low-high"):
            for flags, env in (((f"--port-range={wrong}",), {}), ((), {"DDPRUN_PORT_RANGE": wrong})):
                code, _, err = self.run_job(*flags, "true", env=env)
                self.assertEqual((code, err.count("\n")), (USAGE, 0), err)
                self.assertIn(f"{wrong}: must be FIRST-LAST, two ports from 1 to 65535 in order", err)

    def test_explain_shows_it(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            config.write('port-range = "30000-30003"\n')
            config.flush()
            code, out, err = self.run_job("--config", config.name, "--explain", "true")
        self.assertEqual(code, 0, err)
        for line in (f"  ports of other listeners: 30000-30003 ({config.name}:1 (--port-range))",
                     f"  master port: a free one of 30000-30003 ({config.name}:1 (--port-range))",
                     "  DDPRUN_PORT_RANGE=30000-30003", "  MASTER_PORT: a free port of 30000-30003"):
            self.assertIn(line, out.splitlines())


def wait_until(is_reached):
    deadline = time.monotonic() + support.HANG_GUARD
    while not is_reached():
        if time.monotonic() > deadline:
            raise AssertionError("the ranks do not listen")
        time.sleep(0.05)  # That another process listens is no event for us.


if __name__ == "__main__":
    isolate()
    support.main()
