"""`ddprun doctor` of several nodes: in namespaces of their own, and by --hosts."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from doctor_support import PROBLEM, SYSTEM, USAGE, DoctorTest, do
from node_network import NodeNetwork, isolate
from support import program, worker


class DoctorOfNodesTest(DoctorTest):
    def report_of(self, code, out, err):
        """The one JSON object that node 0 prints, put beside the exit code."""
        self.assertTrue(out.startswith("{"), out + err)
        report = json.loads(out)
        self.assertEqual(report["schema"], 2)
        self.assertEqual(code, PROBLEM if report["state"] == "problem" else 0, err)
        self.assertNotIn("failed; first failure", err)
        return report

    def found(self, report, topic, about=None):
        return [one for one in report["findings"] if one["topic"] == topic and about in (None, one["about"])]

    def assert_found(self, report, topic, about, state, *texts):
        findings = self.found(report, topic, about)
        self.assertEqual([one["state"] for one in findings], [state], report["findings"])
        for text in texts:
            self.assertIn(text, f"{findings[0]['text']}; {findings[0]['remedy']}")

    def assert_all_meet(self, report, nodes):
        ways = {(pair["from"], pair["to"]): pair for pair in report["pairs"]}
        self.assertEqual(len(report["nodes"]), nodes)
        self.assertEqual(sorted(ways), [(a, b) for a in range(nodes) for b in range(nodes) if a != b])
        self.assertEqual({pair["reach"] for pair in report["pairs"]}, {"reached"} if nodes > 1 else set())
        return ways

    def assert_not_measured(self, report):
        self.assertEqual(report["rates"], [])
        self.assert_found(report, "rates", "", "warning", "not measured, since not all nodes reach each other; ")


class Namespaces(DoctorOfNodesTest):
    # Where nobody has an address, the system says so after some seconds, or not in time.
    NOWHERE = {"silent", "unreachable"}

    def examine(self, network, *words, nodes=None, of=None, clocks=((),) * 3):
        """Called on each node by hand; node 0's output."""
        here = network.nodes if nodes is None else nodes
        agents = [self.launch("doctor", "--json", f"--nnodes={of or here}", f"--node-rank={node}", "--master-addr",
                              network.address(0), *words, prefix=[*network.prefix(node), *clocks[node]]) for node in range(here)]
        codes = [agent.wait() for agent in agents]
        self.assertEqual({agent.out() for agent in agents[1:]} - {""}, set())
        return self.report_of(codes[0], agents[0].out(), "\n".join(agent.err() for agent in agents))

    def test_three_nodes(self):
        with NodeNetwork(3) as network:
            report = self.examine(network)
            ways = self.assert_all_meet(report, 3)
            for (_, to), pair in ways.items():
                self.assertRegex(pair["address"], rf"^10\.78\.0\.{to + 1}:\d+$")
            self.assertEqual([rate["node"] for rate in report["rates"]], [0, 1, 2])
            for rate in report["rates"]:
                self.assertLess(abs(rate["clock_offset_us"] or 0), 1_000_000)
                self.assertGreater(rate["latency_us"], 0)
                self.assertGreaterEqual(rate["mbit_s"], rate["least_mbit_s"])
            self.assertEqual([node["host"] for node in report["nodes"]], ["node0", "node1", "node2"])
            for topic in ("nodes", "nodes_alike", "clocks", "reach", "latency", "bandwidth"):
                self.assertTrue(any(one["state"] == "ok" for one in self.found(report, topic)), report["findings"])

    def test_ipv6(self):
        with NodeNetwork(2, ipv6=True) as network:
            self.assert_all_meet(self.examine(network), 2)

    def test_a_pair_that_is_cut_off_from_each_other(self):
        with NodeNetwork(3) as network:
            # What goes to node 2 from node 1 ends nowhere, and neither hears of it.
            do(f"nsenter --target {network.holders[1].pid} --net ip neigh replace 10.78.0.3 lladdr 02:00:00:00:00:99 dev eth0 nud permanent")
            report = self.examine(network)
            reach = {(pair["from"], pair["to"]): pair["reach"] for pair in report["pairs"]}
            self.assertEqual(reach, {(0, 1): "reached", (1, 0): "reached", (0, 2): "reached", (2, 0): "reached",
                                     (1, 2): "silent", (2, 1): "silent"})
            self.assert_found(report, "reach", "node2", "problem", "node1 cannot reach it at 10.78.0.3:", "firewall")
            self.assert_found(report, "reach", "node1", "problem", "node2 cannot reach it at 10.78.0.2:", "firewall")
            self.assert_not_measured(report)

    def test_a_way_that_only_one_of_two_lacks(self):
        with NodeNetwork(2, dead_end=True) as network:
            # Node 1 is to be called where nothing arrives.
            agents = [self.launch("doctor", "--json", "--nnodes=2", f"--node-rank={node}", "--master-addr", network.address(0),
                                  *(("--local-addr", network.dead_address(1)) if node == 1 else ()), prefix=network.prefix(node))
                      for node in range(2)]
            code = agents[0].wait()
            report = self.report_of(code, agents[0].out(), agents[0].err())
            agents[1].wait()
            reach = {(pair["from"], pair["to"]): pair["reach"] for pair in report["pairs"]}
            self.assertEqual(reach[1, 0], "reached")
            self.assertIn(reach[0, 1], self.NOWHERE)
            self.assertEqual(len(self.found(report, "reach")), 1)
            self.assert_found(report, "reach", "node1", "problem", "node0 cannot reach it at 10.79.0.2:", "--net")
            self.assert_not_measured(report)

    def test_a_network_that_leads_nowhere(self):
        with NodeNetwork(3, dead_end=True) as network:
            report = self.examine(network, "--net=10.79.0.0/24")
            self.assertLessEqual({pair["reach"] for pair in report["pairs"]}, self.NOWHERE)
            for node in range(3):
                findings = self.found(report, "reach", f"node{node}")
                self.assertEqual({one["state"] for one in findings}, {"problem"}, report["findings"])
                for one in findings:
                    self.assertIn(f"reach it at 10.79.0.{node + 1}:", one["text"])

    def test_a_node_that_falls_silent(self):
        with NodeNetwork(3) as network:
            agents = [self.launch("doctor", "--json", "--nnodes=3", f"--node-rank={node}", "--master-addr", network.address(0),
                                  prefix=network.prefix(node)) for node in range(3)]
            os.kill(self.doctor_with_rank(1), signal.SIGSTOP)
            code = agents[0].wait()
            report = self.report_of(code, agents[0].out(), agents[0].err())
            self.assertEqual(code, PROBLEM)
            self.assert_found(report, "node", "with rank 1", "problem", "ps")
            for agent in agents[1:]:
                agent.wait()

    def doctor_with_rank(self, rank):
        """The pid of that worker of the doctor's job, as soon as there is one."""
        deadline = time.monotonic() + support.HANG_GUARD
        while time.monotonic() < deadline:
            for pid in support.processes_of_job(self.marker):
                with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as line, open(f"/proc/{pid}/environ", "rb") as variables:
                    if b"--as-node" in line.read() and f"RANK={rank}".encode() in variables.read().split(b"\0"):
                        return pid
            time.sleep(0.01)  # The start of what is not our child is no event for us.
        raise AssertionError(f"no doctor with rank {rank}")

    def test_nodes_that_do_not_come(self):
        with NodeNetwork(3) as network:
            report = self.examine(network, "--last-call=10", nodes=2, of=3)
            self.assert_all_meet(report, 2)
            self.assert_found(report, "nodes", "", "problem", "2 of 3 are there; the others have not come in time")

    def test_names_that_others_do_not_know(self):
        with NodeNetwork(2, named=False) as network, tempfile.NamedTemporaryFile("w") as resolver:
            # A name server that answers at once: nobody.
            resolver.write("nameserver 127.0.0.1\n")
            resolver.flush()
            os.chmod(resolver.name, 0o644)
            do(f"mount --bind {resolver.name} /etc/resolv.conf")
            try:
                report = self.examine(network)
            finally:
                do("umount /etc/resolv.conf")
            self.assert_found(report, "names", "node[0-1]", "warning", "on node[0-1]: stands for no address: ", "/etc/hosts")

    def test_a_slow_node_is_named(self):
        with NodeNetwork(3) as network:
            shaped = subprocess.run(f"nsenter --target {network.holders[2].pid} --net tc qdisc add dev eth0 root tbf rate 20mbit"
                                    " burst 32k latency 50ms", shell=True, capture_output=True, text=True, check=False)
            if shaped.returncode != 0:
                self.skipTest(f"no network can be slowed here: {shaped.stderr.strip()}")
            report = self.examine(network)
            self.assert_all_meet(report, 3)
            self.assert_found(report, "bandwidth", "node2", "warning", "Mbit/s at most, median ", "ethtool")
            rates = {rate["node"]: rate["mbit_s"] for rate in report["rates"]}
            self.assertEqual(min(rates, key=rates.get), 2, rates)

    def test_clocks_that_differ(self):
        if os.environ.get("DDPRUN_SANITIZED"):
            self.skipTest("a sanitizer's runtime has to be loaded before the library with the other clock")
        with NodeNetwork(2) as network:
            for ahead, state in ((5, "warning"), (100, "problem")):
                clocks = (("env",), ("env", f"LD_PRELOAD={program('clock_ahead.so')}", f"CLOCK_AHEAD_SECONDS={ahead}"))
                report = self.examine(network, clocks=clocks)
                self.assert_found(report, "clock", "node1", state, f"{ahead}.0 s ahead of that of node0", "chrony")


class Check(DoctorOfNodesTest):
    """--check, where one node has a folder for temporary files in which no file can be made."""

    BAD = {"TMPDIR": "/proc"}
    FINDING = "folder /proc: temporary files: no file can be made: "

    def setUp(self):
        super().setUp()
        self.environment["DDPRUN_AUTH"] = "off"

    def run_three(self, *words, bad, of=3):
        """The agents, which have ended. Nothing they wait for would end by itself; workers, until the bad one has been told."""
        with NodeNetwork(3) as network, tempfile.TemporaryDirectory() as folder:
            told = os.path.join(folder, "told")
            agents = [self.launch(f"--nnodes={of}", f"--node-rank={node}", "--master-addr", network.address(0), "--check",
                                  "--last-call=3600", "--join-timeout=3600", *words, *worker("wait-for-file", told, "print-place"),
                                  prefix=network.prefix(node), env=self.BAD if node == bad else {}) for node in range(3)]
            agents[bad].code = agents[bad].wait()
            with open(told, "w", encoding="ascii"):
                pass
            for agent in agents:
                agent.code = agent.wait()
        return agents

    def assert_says_what_is_wrong(self, agent):
        self.assertEqual((agent.code, agent.out()), (SYSTEM, ""), agent.err())
        self.assertRegex(agent.err(), rf"\Addprun: --check: {self.FINDING}[^\n]*\Z")

    def assert_left_out(self, agents, bad):
        said = re.findall(r"^ddprun: refused an agent on node(\d) \(pid \d+\): it is not fit for the job \(--check\): (.*)$",
                          agents[0].err(), re.MULTILINE)
        self.assertEqual([int(node) for node, _ in said], [bad], agents[0].err())
        self.assertTrue(said[0][1].startswith(self.FINDING), said)

    def test_the_job_begins_without_a_node_that_is_not_fit(self):
        agents = self.run_three(bad=1, of="2:3")
        self.assert_says_what_is_wrong(agents[1])
        self.assert_left_out(agents, 1)
        for node in (0, 2):
            self.assertEqual(agents[node].code, 0, agents[node].err())
            self.assertRegex(agents[node].out(), r"^place \d of 2 nodes, rank \d of 2$")

    def test_a_spare_takes_its_place(self):
        agents = self.run_three("--spares=1", bad=1, of="2:3")
        self.assert_says_what_is_wrong(agents[1])
        self.assert_left_out(agents, 1)
        self.assertEqual((agents[0].code, agents[2].code), (0, 0), agents[0].err())

    def test_a_job_of_all_nodes_ends_on_all_of_them(self):
        agents = self.run_three(bad=1)
        self.assert_says_what_is_wrong(agents[1])
        self.assert_left_out(agents, 1)
        for node in (0, 2):
            self.assertEqual((agents[node].code, agents[node].out()), (SYSTEM, ""))
            self.assertIn(f"ddprun: there is no job, since node 1 (node1) is not fit for it (--check): {self.FINDING}", agents[node].err())

    def test_the_host_tells_the_others_before_it_goes(self):
        agents = self.run_three(bad=0, of="2:3")
        self.assert_says_what_is_wrong(agents[0])
        for node in (1, 2):
            self.assertEqual((agents[node].code, agents[node].out()), (SYSTEM, ""))
            self.assertIn(f"there is no job, since node 0 (node0) is not fit for it (--check): {self.FINDING}", agents[node].err())
            self.assertIn("it hosts the job", agents[node].err())


class Hosts(DoctorOfNodesTest):
    def setUp(self):
        super().setUp()
        self.undo = contextlib.ExitStack()
        self.addCleanup(self.undo.close)
        self.folder = self.undo.enter_context(tempfile.TemporaryDirectory())
        self.rsh = os.path.join(self.folder, "rsh")
        mark, value = self.marker.split("=")
        with open(self.rsh, "w", encoding="utf-8") as file:
            # Each host has its name, and nothing else of its own; one is not there.
            file.write(f"""#!/bin/sh
[ "$1" = gone ] && {{ echo "no route to $1" >&2; exit 255; }}
export {mark}={value!r}
[ "$1" = bad ] && export TMPDIR=/proc
exec unshare --uts sh -c 'hostname "$1"; exec /bin/sh -c "$2"' sh "$1" "$2"
""")
        os.chmod(self.rsh, 0o700)

    def start(self, hosts, *words, **options):
        return self.run_job("doctor", "--rsh", self.rsh, "--master-addr", "127.0.0.1", "--hosts", hosts, *words, **options)

    def test_eight_hosts_on_one_screen(self):
        start = time.monotonic()
        report = self.report_of(*self.start("gpu[1-8]:4", "--json"))
        took = time.monotonic() - start
        self.assert_all_meet(report, 8)
        rates = sorted(rate["mbit_s"] for rate in report["rates"])
        # Where everything is slow, eight nodes on two cores may find no time for some.
        self.assertGreaterEqual(len(rates), 1 if os.environ.get("DDPRUN_SANITIZED") else 8)
        print(f"8 nodes on one machine: {took:.1f} s, median {rates[len(rates) // 2]} Mbit/s")
        code, out, err = self.start("gpu[1-8]")
        self.assertEqual(code, PROBLEM if re.search("^problem", out, re.MULTILINE) else 0, err)
        self.assertRegex(out, r"(?m)^ok       all 8 nodes: version, ")
        self.assertRegex(out, r"(?m)^ok       reach: each of 8 nodes reaches each other one$")
        for line in out.splitlines():
            self.assertRegex(line, "^(ok|warning|problem|rate) +[^ ]")
        self.assertEqual(len(re.findall(r"(?m)^rate +[0-9.]+ [GM]bit/s each way, latency +[0-9.]+ [mu]s: gpu\d$", out)), 8, out)

    def test_what_some_have_is_one_line(self):
        code, out, err = self.start("gpu[1-3]", env={"PYTHON_EXEC": "no-such-python"})
        self.assertIn(code, (0, PROBLEM), err)
        self.assertRegex(out, r"(?m)^warning  all 3 nodes: python: no-such-python is not on PATH; ")

    def test_a_host_that_is_not_there(self):
        code, out, err = self.start("gpu1,gone,gpu3", "--last-call=10", "--json")
        report = self.report_of(code, out, err)
        self.assertEqual(code, PROBLEM)
        self.assertIn("no route to gone", err)
        self.assert_all_meet(report, 2)
        self.assert_found(report, "nodes", "", "problem", "2 of 3 are there; gone has not come in time")

    def test_a_single_host(self):
        report = self.report_of(*self.start("gpu1", "--json"))
        self.assert_all_meet(report, 1)
        self.assertEqual(report["nodes"][0]["host"], "gpu1")

    def test_what_is_said_of_other_jobs_does_not_count(self):
        job = {"DDPRUN_NPROC_PER_NODE": "3", "PET_MAX_RESTARTS": "3", "DDPRUN_WRAP": "0:false", "DDPRUN_TEE": "3",
               "DDPRUN_QUIET": "1"}
        report = self.report_of(*self.start("gpu[1-2]", "--json", env=job))
        self.assert_all_meet(report, 2)
        # What says which nodes there are, does.
        report = self.report_of(*self.run_job("doctor", "--json", "--rsh", self.rsh,
                                              env={"DDPRUN_HOSTS": "gpu[1-2]", "DDPRUN_MASTER_ADDR": "127.0.0.1"}))
        self.assert_all_meet(report, 2)

    def test_of_a_jobs_file_what_says_which_nodes_there_are_counts(self):
        file, events = os.path.join(self.folder, "job.toml"), os.path.join(self.folder, "events")
        with open(file, "w", encoding="ascii") as to:
            to.write(f'hosts = "gpu[1-2]"\nmaster-addr = "127.0.0.1"\nevents = "{events}"\nwrap = "0:false"\nnproc-per-node = 3\n'
                     "max-restarts = 3\nmodule = true\nlog-dir = '/proc/nothing/logs'\n")
        report = self.report_of(*self.run_job("doctor", "--json", "--rsh", self.rsh, "--config", file))
        self.assert_all_meet(report, 2)
        self.assertFalse(os.path.exists(events))
        # Doctor has an option of that name, too.
        out = self.run_job("doctor", "--rsh", self.rsh, "--config", file)[1]
        self.assertIn("problem  all 2 nodes: folder /proc/nothing/logs: logs: ", out)
        report = self.report_of(*self.start("gpu[1-3]", "--json", env={"DDPRUN_CONFIG": file}))
        self.assert_all_meet(report, 3)

    def check(self, *words):
        return self.run_job("--check", "--rsh", self.rsh, "--master-addr", "127.0.0.1", "--hosts", "gpu1,bad,gpu3",
                            "--join-timeout=3600", "--last-call=3600", *words, *worker("print-place"))

    def test_check_leaves_a_host_out(self):
        code, out, err = self.check("--nnodes=2:3")
        self.assertEqual(code, 0, err)
        self.assertEqual(len(re.findall(r"^place \d of 2 nodes, rank \d of 2$", out, re.MULTILINE)), 2, out)
        self.assertEqual(len(re.findall(r"^.*refused an agent on bad .*: it is not fit for the job \(--check\): folder /proc: .*$", err,
                                        re.MULTILINE)), 1, err)
        self.assertEqual(len(re.findall("--check: folder /proc", err)), 1, err)

    def test_check_ends_a_job_of_all_hosts(self):
        code, out, err = self.check()
        self.assertEqual((code, out), (SYSTEM, ""), err)
        self.assertIn("--check: folder /proc: temporary files: no file can be made: ", err)

    def test_words(self):
        self.assertIn("--hosts", self.run_job("doctor", "--help")[1])
        for words in (("--hosts", "a[3-1]"), ("--max-restarts=1",), ("--hosts", "a,b", "program"), ("--nnodes=0",),
                      ("--hosts", "a,b", "--hostfile", "c")):
            code, out, err = self.run_job("doctor", *words)
            self.assertEqual((code, out), (USAGE, ""), err)
            self.assertEqual(len(err.splitlines()), 1, err)


if __name__ == "__main__":
    isolate()
    support.main()
