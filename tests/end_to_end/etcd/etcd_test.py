"""Nodes whose host is elected in etcd (--rdzv-backend=etcd), with a real etcd."""

import base64
import http
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from support import EndToEndTest, free_port, worker

UNAVAILABLE = 69
PREEMPTED = 75
PREFIX = "/jobs"
HEARTBEAT = 5 if "DDPRUN_SANITIZED" in os.environ else 3  # seconds, also how long a host's key outlives it


class Etcd:
    """One server with a folder of its own, which may be stopped and started again."""

    scheme, more_words, trust = "http", (), None  # how it is asked by clients, this test among them

    def __init__(self, folder, address="127.0.0.1", prefix=()):
        """`prefix`: words before its command line, which make it run elsewhere, where it has that address."""
        self.folder, self.prefix = folder, prefix
        self.port, self.peer_port = free_port(), free_port()
        self.endpoint = f"{address}:{self.port}"
        self.start()

    def start(self):
        client, peer = f"{self.scheme}://{self.endpoint}", f"http://127.0.0.1:{self.peer_port}"
        with open(os.path.join(self.folder, "log"), "ab") as log:
            # Short pauses between its own elections, so that it keeps leases of a second.
            self.process = subprocess.Popen(
                [*self.prefix, "etcd", "--data-dir", os.path.join(self.folder, "data"), "--listen-client-urls", client,
                 "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                 "--initial-cluster", f"default={peer}", "--heartbeat-interval", "50", "--election-timeout", "250",
                 *self.more_words],
                stdout=log, stderr=log)
        deadline = time.monotonic() + support.HANG_GUARD
        while True:
            try:
                self.ask("kv/range", {"key": text64("/")})
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)  # That it listens is no event for us.

    def stop(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.wait()

    def ask(self, path, body):
        request = urllib.request.Request(f"{self.scheme}://{self.endpoint}/v3/{path}", data=json.dumps(body).encode())
        deadline = time.monotonic() + support.HANG_GUARD
        while True:
            try:
                with urllib.request.urlopen(request, timeout=support.HANG_GUARD, context=self.trust) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                # On a busy machine it loses its own election for a while.
                if error.code != http.HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)  # That this is over is no event for us.

    def keys(self):
        """What is under the prefix: name -> what the host has written."""
        found = self.ask("kv/range", {"key": text64(PREFIX + "/"), "range_end": text64(PREFIX + "0")})
        return {base64.b64decode(pair["key"]).decode(): json.loads(base64.b64decode(pair["value"]))
                for pair in found.get("kvs", [])}

    def leases(self):
        return [lease["ID"] for lease in self.ask("lease/leases", {}).get("leases", [])]

    def wait_for_keys(self, is_reached):
        return wait_for(self.keys, is_reached)


def wait_for(look, is_reached):
    """Waits until what is looked at is as it should be; returns it."""
    deadline = time.monotonic() + support.HANG_GUARD
    while not is_reached(seen := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"there is {seen}")
        time.sleep(0.02)  # A watch would be an event, of the very interface that is tested.
    return seen


def text64(text):
    return base64.b64encode(text.encode()).decode()


class EtcdTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory()
        self.etcd = Etcd(self.folder.name)

    def tearDown(self):
        super().tearDown()
        self.etcd.stop()
        self.folder.cleanup()

    def node(self, nnodes, *words, job="job", backend="etcd", endpoint=None, flags=("--heartbeat", HEARTBEAT), **options):
        return self.launch("-v", f"--rdzv-backend={backend}", f"--rdzv-endpoint={endpoint or self.etcd.endpoint}",
                           f"--rdzv-id={job}", f"--rdzv-conf=etcd_prefix={PREFIX},last_call_timeout=0",
                           "--nnodes", nnodes, "--grace", 10, *flags, *words, **options)

    def host_of(self, job="job"):
        """The pid of the agent that hosts, once others can read where."""
        name = f"{PREFIX}/run_{job}/host"
        return self.etcd.wait_for_keys(lambda keys: keys.get(name, {}).get("endpoint"))[name]["pid"]

    def assert_nothing_left(self):
        """No key, at once. A lease that its agent gave up while it was being granted runs out by itself."""
        self.assertEqual(self.etcd.keys(), {})
        wait_for(self.etcd.leases, lambda leases: not leases)


class Election(EtcdTest):
    def test_three_agents_elect_one_that_hosts_and_leave_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            go = os.path.join(folder, "go")
            agents = [self.node(3, *worker("print-env", "say", "ready", "wait-for-file", go), backend=backend)
                      for backend in ("etcd", "etcd-v2", "etcd")]
            for agent in agents:
                agent.wait_for_line("^ready$")
            host = self.host_of()
            record = self.etcd.keys()[f"{PREFIX}/run_job/host"]
            self.assertEqual((record["run_id"], record["nodes"]), ("job", "3:3"))
            open(go, "w", encoding="ascii").close()
            for agent in agents:
                self.assertEqual(agent.wait(), 0, agent.err())
        ranks = {}
        for agent in agents:
            lines = dict(line.split("=", 1) for line in agent.out().splitlines() if "=" in line)
            ranks[int(lines["RANK"])] = agent.pid
            self.assertEqual(f"{lines['MASTER_ADDR']}:{lines['MASTER_PORT']}", record["endpoint"])
            self.assertEqual(lines["WORLD_SIZE"], "3")
        self.assertEqual(sorted(ranks), [0, 1, 2])
        self.assertEqual(ranks[0], host)
        self.assert_nothing_left()

    def test_the_host_is_killed_while_nodes_gather_and_another_one_hosts(self):
        agents = [self.node(3, *worker("exit", 0)) for _ in range(2)]
        for _ in range(2):
            first = next(agent for agent in agents if agent.pid == self.host_of())
            first.wait_for_line("joined 2/3")
            first.send(signal.SIGKILL)
            first.wait()
            agents.remove(first)
            self.etcd.wait_for_keys(
                lambda keys: keys.get(f"{PREFIX}/run_job/host", {}).get("pid") in [agent.pid for agent in agents])
            agents.append(self.node(3, *worker("exit", 0)))
        agents.append(self.node(3, *worker("exit", 0)))
        self.assertEqual([agent.wait() for agent in agents], [0, 0, 0], agents[0].err())
        self.assert_nothing_left()

    def test_agents_that_were_all_killed_find_each_other_again(self):
        for _ in range(2):
            agents = [self.node(2, *worker("exit-zero-on-term")) for _ in range(2)]
            for agent in agents:
                agent.wait_for_line("^ready$")
            for agent in agents:
                agent.send(signal.SIGKILL)
            for agent in agents:
                agent.wait()
        self.etcd.wait_for_keys(lambda keys: not keys)
        self.assert_nothing_left()

    def test_jobs_of_different_ids_do_not_meet(self):
        agents = {job: [self.node(2, *worker("print-env"), job=job) for _ in range(2)] for job in ("a", "b/..", "ä \"'")}
        ports = set()
        for job, pair in agents.items():
            for agent in pair:
                self.assertEqual(agent.wait(), 0, agent.err())
                self.assertIn(f"TORCHELASTIC_RUN_ID={job}\n", agent.out())
            ports |= {line for agent in pair for line in agent.out().splitlines() if line.startswith("MASTER_PORT=")}
        self.assertEqual(len(ports), 3)
        self.assert_nothing_left()

    def test_nodes_come_and_go_and_the_host_says_goodbye(self):
        words = worker("print-place", "exit-zero-on-term")
        first = self.node("1:3", *words)
        first.wait_for_line("^place 0 of 1 nodes")
        second = self.node("1:3", *words, flags=("--heartbeat", HEARTBEAT, "--node-rank", 2))
        second.wait_for_line("^place 1 of 2 nodes")
        second.wait_for_line("^ready$")
        second.send(signal.SIGKILL)
        second.wait()
        first.wait_for_line("^place 0 of 1 nodes")
        first.wait_for_line("^ready$")
        first.send(signal.SIGTERM)
        self.assertEqual(first.wait(), PREEMPTED)
        self.assert_nothing_left()

    def test_a_host_that_was_away_joins_the_one_that_was_elected_meanwhile(self):
        away, second = [self.node(3, *worker("exit", 0)) for _ in range(2)]
        if self.host_of() != away.pid:
            away, second = second, away
        away.wait_for_line("joined 2/3")
        away.send(signal.SIGSTOP)
        second.wait_for_line("serves the rendezvous")
        away.send(signal.SIGCONT)
        third = self.node(3, *worker("exit", 0))
        self.assertEqual([agent.wait() for agent in (away, second, third)], [0, 0, 0], away.err())
        self.assertRegex(away.err(), "(?s)serves the rendezvous.*joins the rendezvous")
        self.assert_nothing_left()

    def test_the_elected_hosts_time_limit_counts(self):
        # Longer where the workers had not begun by then.
        for seconds in (2 + HEARTBEAT, 20, 60):
            agents = [self.node(2, *worker("exit-zero-on-term"), job=f"job{seconds}", flags=("--heartbeat", HEARTBEAT, "--time-limit", seconds))
                      for _ in range(2)]
            codes = [agent.wait() for agent in agents]
            if all("ready" in agent.seen["out"] for agent in agents):
                break
        self.assertEqual(codes, [PREEMPTED, PREEMPTED], agents[0].err())
        self.assertEqual(sum("time limit" in agent.err() for agent in agents), 2)

    def test_one_node_needs_no_etcd(self):
        self.assertEqual(self.node(1, *worker("exit", 0), endpoint="127.0.0.1:1").wait(), 0)


class Trouble(EtcdTest):
    def start_job(self, **options):
        """A job of two nodes that runs until the file is there."""
        self.go = os.path.join(self.folder.name, "go")
        agents = [self.node(2, *worker("say", "ready", "wait-for-file", self.go), **options) for _ in range(2)]
        for agent in agents:
            agent.wait_for_line("^ready$")
        return agents

    def finish_job(self, agents):
        open(self.go, "w", encoding="ascii").close()
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent.err())

    def test_etcd_is_restarted_and_the_job_goes_on(self):
        agents = self.start_job()
        host = self.host_of()
        self.etcd.stop()
        self.etcd.start()
        self.assertEqual(self.host_of(), host)
        # Its data is lost, too: the host writes its key anew.
        self.etcd.stop()
        shutil.rmtree(os.path.join(self.folder.name, "data"))
        self.etcd.start()
        self.assertEqual(self.host_of(), host)
        self.finish_job(agents)
        self.assert_nothing_left()
        for agent in agents:
            self.assertNotIn("lost", agent.err())

    def test_a_host_that_was_stopped_for_longer_than_its_lease_writes_its_key_again(self):
        agent = self.node("1:2", *worker("exit-zero-on-term"))
        agent.wait_for_line("^ready$")
        agent.send(signal.SIGSTOP)
        self.etcd.wait_for_keys(lambda keys: not keys)
        agent.send(signal.SIGCONT)
        self.assertEqual(self.host_of(), agent.pid)
        agent.send(signal.SIGTERM)
        self.assertEqual(agent.wait(), PREEMPTED)
        self.assert_nothing_left()

    def test_etcd_is_gone_for_good_and_the_job_ends_well(self):
        agents = self.start_job()
        self.etcd.stop()
        host = next(agent for agent in agents if "serves the rendezvous" in agent.err())
        host.wait_for_line("^ddprun: this agent's key in etcd cannot be kept: cannot connect to 127.0.0.1:")
        self.finish_job(agents)
        self.assertEqual(host.err().count("cannot be kept"), 1)

    def test_etcd_that_does_not_answer_does_not_hold_the_end(self):
        agents = self.start_job()
        self.etcd.process.send_signal(signal.SIGSTOP)
        self.finish_job(agents)

    def test_no_etcd_at_the_start_is_said_and_ends_by_the_join_timeout(self):
        ports = free_port(), free_port()
        endpoint = ",".join(f"127.0.0.1:{port}" for port in ports)
        agent = self.node(2, *worker("exit", 0), endpoint=endpoint, flags=("--join-timeout", 12, "--heartbeat", 1))
        causes = "; ".join(f"cannot connect to 127.0.0.1:{port}: Connection refused .*" for port in ports)
        agent.wait_for_line(f"^ddprun: waiting for node 0: etcd is of no help: {causes}; \\d+ s of at most 12 s \\(--join-timeout\\)$")
        self.assertEqual(agent.wait(), UNAVAILABLE)
        self.assertRegex(agent.err(), f"ddprun: no host was found in etcd \\(--rdzv-endpoint {endpoint}\\) within 12 s: {causes}; "
                                      "--join-timeout SECONDS sets how long to wait")

    def test_etcd_comes_late_and_is_the_second_of_its_endpoints(self):
        self.etcd.stop()
        endpoint = f"127.0.0.1:{free_port()},{self.etcd.endpoint}"
        agents = [self.node(2, *worker("exit", 0), endpoint=endpoint) for _ in range(2)]
        for agent in agents:
            agent.wait_for_line("^ddprun: waiting for node 0: etcd is of no help: cannot connect to ")
        self.etcd.start()
        self.assertEqual([agent.wait() for agent in agents], [0, 0], agents[0].err())
        self.assert_nothing_left()

    def test_what_etcd_refuses_it_says_itself(self):
        for path, body in (("auth/user/add", {"name": "root", "password": "x"}), ("auth/role/add", {"name": "root"}),
                           ("auth/user/grant", {"user": "root", "role": "root"}), ("auth/enable", {})):
            self.etcd.ask(path, body)
        agent = self.node(2, *worker("exit", 0))
        self.assertEqual(agent.wait(), UNAVAILABLE)
        self.assertIn(f"ddprun: etcd refuses to serve the rendezvous (--rdzv-endpoint {self.etcd.endpoint}): "
                      f"{self.etcd.endpoint} answers 400 Bad Request: etcdserver: user name is empty\n", agent.err() + "\n")

    def test_an_agent_that_waits_for_etcd_can_be_ended(self):
        self.etcd.process.send_signal(signal.SIGSTOP)
        for endpoint in (f"127.0.0.1:{free_port()}", self.etcd.endpoint):
            agent = self.node(2, *worker("exit", 0), endpoint=endpoint)
            agent.wait_for_line("asks etcd at")
            agent.wait_until_idle()
            agent.send(signal.SIGTERM)
            self.assertEqual(agent.wait(), 128 + signal.SIGTERM)

    def test_an_agent_that_is_ended_before_the_job_begins_leaves_nothing(self):
        for number, code in ((signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, 128 + signal.SIGINT)):
            agent = self.node(2, *worker("exit", 0))
            agent.wait_for_line("serves the rendezvous")
            self.host_of()
            agent.send(number)
            self.assertEqual(agent.wait(), code)
            self.assert_nothing_left()


if __name__ == "__main__":
    if shutil.which("etcd") is None:
        print("skipped: there is no etcd (Debian's etcd-server)")
        sys.exit(77)
    support.main()
