"""--events: what happens to agents as lines of JSON, torchrun's events and our own; and whether they are alive, by HTTP."""

import collections
import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from elastic_test import PREEMPTED, Elastic
from support import HANG_GUARD, free_port, main, worker

USAGE = 2
REFUSED = 71
STATUS_FIELDS = {"run_id", "global_rank", "group_rank", "worker_id", "role", "hostname", "state", "total_run_time",
                 "rdzv_backend", "raw_error", "metadata", "agent_restarts", "duration_ms"}
RENDEZVOUS_FIELDS = {"name", "run_id", "message", "hostname", "pid", "node_state", "master_endpoint", "rank", "local_id",
                     "error_trace"}
OWN_FIELDS = {"run_id", "hostname", "launcher_pid", "elapsed_ms"}

SYSTEM_PYTHON = "/usr/bin/python3"  # the one that Debian's python3-torch is for
# As torchrun's own readers: no field may be missing, and none too many.
READ_AS_TORCHRUN = """
import json, sys
from torch.distributed.elastic.events import Event, RdzvEvent
words = []
for line in open(sys.argv[1]):
    source = json.loads(line).get("source", "")
    if source == "":
        words.append(RdzvEvent.deserialize(line).node_state.value)
    elif source != "DDPRUN":
        words.append(Event.deserialize(line).source.value)
print(*words)
"""

Events = collections.namedtuple("Events", "status rendezvous own")


def read_events(path):
    """Checks the fields of every line, and sorts them: torchrun's two kinds, and our own as (name, metadata)."""
    events = Events([], [], [])
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert text.endswith("\n"), text
    for line in text.splitlines():
        event = json.loads(line)
        if "source" not in event:
            assert set(event) == RENDEZVOUS_FIELDS, line
            assert event["node_state"] in ("INIT", "RUNNING", "SUCCEEDED", "FAILED"), line
            events.rendezvous.append(event)
            continue
        assert set(event) == {"name", "source", "timestamp", "metadata"}, line
        assert isinstance(event["timestamp"], int) and event["timestamp"] > 1_700_000_000_000, line
        if event["source"] == "DDPRUN":
            assert event["name"].startswith("ddprun."), line
            assert OWN_FIELDS <= set(event["metadata"]), line
            events.own.append((event["name"].removeprefix("ddprun."), event["metadata"]))
            continue
        assert event["source"] in ("AGENT", "WORKER"), line
        assert set(event["metadata"]) == STATUS_FIELDS, line
        assert event["name"] == f"torchelastic.worker.status.{event['metadata']['state']}", line
        events.status.append(event)
    return events


def names(events):
    return [name for name, _ in events.own]


def all_of(events, name):
    return [metadata for found, metadata in events.own if found == name]


def states(events):
    return [(event["source"], event["metadata"]["global_rank"], event["metadata"]["state"]) for event in events.status]


class EventsTest(Elastic):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)


class Jobs(EventsTest):
    def test_two_agents_and_a_restart(self):
        # Rank 3 fails in the first round only, and has used some of the machine.
        script = '''[ "$TORCHELASTIC_RESTART_COUNT" = 1 ] && exit 0; [ "$RANK" = 3 ] || exec sleep 600
            i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 7'''
        agents = [self.agent(rank, "--no-python", "sh", "-c", script, nproc=2,
                             flags=("--max-restarts", 2, "--min-uptime", 0, "--role", "trainer", "--rdzv-id", "job",
                                    "--events", self.path(str(rank)))) for rank in (0, 1)]
        self.assertEqual([agent.wait() for agent in agents], [0, 0], agents[0].err())
        for rank, agent in enumerate(agents):
            events = read_events(self.path(str(rank)))
            self.assertEqual(stat.S_IMODE(os.stat(self.path(str(rank))).st_mode), 0o600)
            first = ["start.options_read", "start.machine_read"]
            self.assertEqual(names(events)[:2], first)
            self.assertIn("start.store_up" if rank == 0 else "start.store_known", names(events))
            self.assertIn("start.joined", names(events))
            self.assertEqual([(ready["round"], ready["world_size"], ready["nodes"], ready["node_rank"], ready["first_rank"],
                               ready["restart_count"]) for ready in all_of(events, "round.ready")],
                             [(0, 4, 2, rank, 2 * rank, 0), (1, 4, 2, rank, 2 * rank, 1)])
            self.assertEqual(all_of(events, "round.started")[1]["workers"], 2)
            restart, = all_of(events, "restart")
            self.assertEqual((restart["restart"], restart["max_restarts"]), (1, 2))
            self.assertEqual((restart["cause"]["kind"], restart["cause"]["rank"], restart["cause"]["exit_code"]),
                             ("worker_failed", 3, 7))
            ends = {(end["round"], end["rank"]): end for end in all_of(events, "worker.ended")}
            self.assertEqual(set(ends), {(number, 2 * rank + local) for number in (0, 1) for local in (0, 1)})
            for end in ends.values():
                self.assertGreater(end["max_rss_bytes"], 100_000)
                self.assertGreaterEqual(end["wall_ms"], 0)
            if rank == 1:
                failed = ends[(0, 3)]
                self.assertEqual((failed["manner"], failed["exit_code"], failed["signal"]), ("failed", 7, None))
                self.assertGreater(failed["user_cpu_ms"] + failed["system_cpu_ms"], 0)
                self.assertEqual(ends[(0, 2)]["signal"], "SIGTERM")
            self.assertEqual(states(events), [("WORKER", 2 * rank, "SUCCEEDED"), ("WORKER", 2 * rank + 1, "SUCCEEDED"),
                                              ("AGENT", None, "SUCCEEDED")])
            last = events.status[1]["metadata"]
            self.assertEqual((last["run_id"], last["role"], last["group_rank"], last["rdzv_backend"], last["agent_restarts"]),
                             ("job", "trainer", rank, "static", 1))
            self.assertEqual(last["worker_id"], str(ends[(1, 2 * rank + 1)]["pid"]))
            self.assertEqual(json.loads(last["metadata"]), {"group_world_size": 2, "entry_point": "sh", "local_rank": [1],
                                                            "role_rank": [2 * rank + 1], "role_world_size": [4]})
            self.assertEqual([event["node_state"] for event in events.rendezvous],
                             ["RUNNING"] + ["INIT"] * (rank == 0) + ["RUNNING"] * 2 + ["SUCCEEDED"])
            self.assertEqual({event["pid"] for event in events.rendezvous}, {agent.pid})
            self.assertEqual(names(events)[-1], "ended")
            self.assertEqual((events.own[-1][1]["exit_code"], events.own[-1][1]["outcome"]), (0, "succeeded"))
            times = [metadata["elapsed_ms"] for _, metadata in events.own]
            self.assertEqual(times, sorted(times))

    def test_a_failure_and_its_error_file(self):
        path = self.path("events")
        words = worker("--only-rank", 1, "write-error-file", "nested", "no more", "exit", 3, "else", "ready-then-wait")
        code, _, _ = self.run_job("--nproc-per-node", 2, "--events", path, *map(str, words))
        self.assertEqual(code, 3)
        events = read_events(path)
        self.assertEqual(states(events),
                         [("WORKER", 0, "TERMINATED"), ("WORKER", 1, "FAILED"), ("AGENT", None, "SUCCEEDED")])
        self.assertIsNone(events.status[0]["metadata"]["raw_error"])
        self.assertEqual(json.loads(events.status[1]["metadata"]["raw_error"])["message"]["message"], "no more")
        self.assertEqual(events.own[-1][1]["first_failure"]["rank"], 1)
        self.assertEqual(events.own[-1][1]["exit_code"], 3)

    def test_a_signal(self):
        path = self.path("events")
        agent = self.launch("--events", path, "--forward", "USR1", *worker("exit-zero-on-term"))
        agent.wait_for_line("^ready$")
        agent.send(signal.SIGTERM)
        self.assertEqual(agent.wait(), PREEMPTED)
        events = read_events(path)
        self.assertEqual([received["signal"] for received in all_of(events, "signal.received")], ["SIGTERM"])
        self.assertEqual(states(events)[-1], ("AGENT", None, "FAILED"))
        self.assertEqual(events.own[-1][1]["outcome"], "preempted")
        self.assertIn(("running", "stopping", "signal_received"),
                      [(change["from"], change["to"], change["by"]) for change in all_of(events, "state")])

    def test_forwarded_signals_and_warnings_of_time(self):
        path = self.path("events")
        agent = self.launch("--events", path, "--forward", "USR1", "--time-limit", "3600s", "--warn-before", "3585s:USR2",
                            *worker("print-signals"))
        agent.wait_for_line("^ready$")
        agent.wait_for_line("^SIGUSR2$")
        agent.send(signal.SIGUSR1)
        agent.wait_for_line("^SIGUSR1$")
        agent.interrupt_until_gone()
        agent.wait()
        events = read_events(path)
        warning, = all_of(events, "time.warning")
        self.assertEqual(warning["signal"], "SIGUSR2")
        self.assertIn("--warn-before 3585s:USR2", warning["text"])
        self.assertEqual([forwarded["signal"] for forwarded in all_of(events, "signal.forwarded")], ["SIGUSR2", "SIGUSR1"])

    def test_an_elastic_job_shrinks_and_grows(self):
        path = self.path("events")
        host = self.host("1:2", "--events", path)
        self.runs(host, 0, 1, 0, 1)
        second = self.node("1:2", nproc=2)
        self.runs(host, 0, 2, 0, 3)
        self.runs(second, 1, 2, 1, 3)
        second.send(signal.SIGKILL)
        second.wait()
        self.runs(host, 0, 1, 0, 1)
        host.send(signal.SIGTERM)
        self.assertEqual(host.wait(), PREEMPTED)
        grown, shrunk = all_of(read_events(path), "resize")
        self.assertEqual((grown["from_world_size"], grown["to_world_size"], grown["from_nodes"], grown["to_nodes"]), (1, 3, 1, 2))
        self.assertEqual((shrunk["from_world_size"], shrunk["to_world_size"]), (3, 1))
        node = f"{socket.gethostname()} ({second.pid})"
        self.assertEqual((grown["came"], grown["left"]), ([node], []))
        self.assertEqual((shrunk["came"], shrunk["left"]), ([], [node]))
        self.assertIn("was lost", shrunk["cause"])

    def test_a_takeover(self):
        path = self.path("events")
        flags = ("--last-call", 3600)
        host = self.node("1:2", "--node-rank", 0, *flags, hosts=1)
        second = self.node("1:2", "--node-rank", 1, "--events", path, *flags)
        self.runs(host, 0, 2, 0, 2)
        self.runs(second, 1, 2, 1, 2)
        host.send(signal.SIGKILL)
        host.wait()
        self.runs(second, 0, 1, 0, 1)
        second.send(signal.SIGTERM)
        self.assertEqual(second.wait(), PREEMPTED)
        events = read_events(path)
        order = [name for name in names(events) if name.startswith("coordinator.") or name == "resize"]
        self.assertEqual(order, ["coordinator.lost", "coordinator.found", "coordinator.taken_over", "resize"])

    def test_of_a_detached_job_the_launcher_that_goes_on_writes(self):
        path, go = self.path("events"), self.path("go")
        runtime = {"DDPRUN_JOBS_DIR": self.folder}
        code, out, err = self.run_job("--detach", "--events", path, *worker("wait-for-file", go), env=runtime)
        self.assertEqual(code, 0, err)
        self.assertTrue(out)
        with open(go, "w", encoding="ascii"):
            pass
        self.wait_for_end_of(path)
        events = read_events(path)
        self.assertEqual(names(events).count("start.options_read"), 1)
        self.assertEqual(names(events)[-1], "ended")

    def wait_for_end_of(self, path):
        deadline = time.monotonic() + HANG_GUARD
        while True:
            with open(path, encoding="utf-8") as file:
                if '"ddprun.ended"' in file.read():
                    return
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)  # What another process writes into a file is no event for us.

    def test_torchruns_own_classes_read_its_events(self):
        path = self.path("events")
        self.assertEqual(self.run_job("--events", path, *worker("exit", 0))[0], 0)
        reader = subprocess.run([SYSTEM_PYTHON, "-B", "-c", READ_AS_TORCHRUN, path], capture_output=True, text=True,
                                timeout=HANG_GUARD, check=False)
        if "ModuleNotFoundError: No module named 'torch'" in reader.stderr:
            print("skipped: PyTorch is not installed (Debian package python3-torch)")
            self.skipTest("no PyTorch")
        self.assertEqual(reader.stderr, "")
        self.assertEqual(reader.stdout, "RUNNING INIT RUNNING WORKER AGENT SUCCEEDED\n")


class Files(EventsTest):
    def test_a_path_that_cannot_be_is_a_usage_error_before_anything_starts(self):
        witness = self.path("started")
        for path in (self.path("no/file"), self.folder, ""):
            with self.subTest(path=path):
                code, _, err = self.run_job("--events", path, *worker("touch", witness))
                if not path:  # As everywhere: not given.
                    self.assertEqual((code, err), (0, ""))
                    continue
                self.assertEqual(code, USAGE)
                self.assertRegex(err, rf"^ddprun: --events '{path}': cannot be opened: .+$")
                self.assertFalse(os.path.exists(witness))

    def test_the_variable_and_a_second_job_behind_the_first(self):
        path = self.path("events")
        for _ in range(2):
            self.assertEqual(self.run_job(*worker("exit", 0), env={"DDPRUN_EVENTS": path})[0], 0)
        self.assertEqual(names(read_events(path)).count("ended"), 2)

    def test_a_full_disk_costs_lines_and_not_the_job(self):
        code, _, err = self.run_job("--events", "/dev/full", *worker("exit", 0))
        self.assertEqual(code, 0)
        self.assertEqual(err, "ddprun: cannot write /dev/full (--events): No space left on device; lines are lost there, the "
                              "job goes on")

    def test_a_launcher_that_ends_before_its_agent_says_so(self):
        path = self.path("events")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", self.port))
            taken.listen()
            code, _, err = self.run_job("--nnodes", 2, "--master-addr", "127.0.0.1", "--master-port", self.port, "--events", path,
                                        *worker("exit", 0))
        self.assertEqual(code, REFUSED, err)
        events = read_events(path)
        self.assertEqual(states(events), [("AGENT", None, "FAILED")])
        self.assertEqual((events.own[-1][0], events.own[-1][1]["exit_code"]), ("ended", REFUSED))
        self.assertIn(events.own[-1][1]["text"], err)


class Health(Elastic):
    def health(self, port, method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request(method, "/any/path")
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or "null")

    def test_it_is_alive_while_it_joins_runs_drains_and_restarts(self):
        ports = [free_port(), free_port()]
        host = self.node(2, "--node-rank", 0, "--max-restarts", 1, "--min-uptime", 0, hosts=1,
                         env={"TORCHELASTIC_HEALTH_CHECK_PORT": str(ports[0])}, words=worker(
                             "--only-rank", 0, "say", "over", "exit", 0, "else", "exit", 0))
        host.wait_for_line("joined 1/2")
        self.assertEqual(self.health(ports[0])[0], 200)
        self.assertEqual(self.health(ports[0])[1]["state"], "joining")
        self.assertIsNone(self.health(ports[0])[1]["world_size"])
        second = self.node(2, "--node-rank", 1, "--max-restarts", 1, "--min-uptime", 0,
                           env={"TORCHELASTIC_HEALTH_CHECK_PORT": str(ports[1])}, words=worker(
                               "--only-rank", 0, "say", "over", "exit", 0, "else", "exit", 0))
        self.assertEqual((host.wait(), second.wait()), (0, 0))

    def test_it_is_alive_while_others_are_at_work(self):
        port = free_port()
        words = worker("--only-rank", "0", "say", "over", "exit", "0", "else", "exit-zero-on-term")
        host = self.node(2, "--node-rank", 0, hosts=1, words=words, env={"TORCHELASTIC_HEALTH_CHECK_PORT": str(port)})
        second = self.node(2, "--node-rank", 1, words=words)
        second.wait_for_line("^ready$")
        host.wait_for_line("^over$")
        status, text = self.health(port)
        while text["state"] == "running":  # Until the end of the worker is known.
            status, text = self.health(port)
        self.assertEqual((status, text["status"], text["state"], text["world_size"]), (200, "alive", "draining", 2))
        self.assertEqual(self.health(port, "HEAD"), (200, None))
        self.assertEqual(self.health(port, "DELETE"), (405, None))
        second.send(signal.SIGTERM)
        self.assertEqual(host.wait(), second.wait())

    def test_it_is_alive_while_workers_take_their_grace(self):
        port = free_port()
        agent = self.launch("--grace", 3600, *worker("print-signals"), env={"TORCHELASTIC_HEALTH_CHECK_PORT": str(port)})
        agent.wait_for_line("^ready$")
        self.assertEqual(self.health(port)[1]["state"], "running")
        agent.send(signal.SIGINT)
        while self.health(port)[1]["state"] == "running":
            pass
        self.assertEqual(self.health(port)[1]["state"], "stopping")
        agent.interrupt_until_gone()
        self.assertEqual(agent.wait(), 128 + signal.SIGINT)

    def test_a_port_that_is_none_is_a_usage_error(self):
        for value in ("health", "0", "65536"):
            code, _, err = self.run_job(*worker("exit", 0), env={"TORCHELASTIC_HEALTH_CHECK_PORT": value})
            self.assertEqual((code, err), (USAGE, f"ddprun: TORCHELASTIC_HEALTH_CHECK_PORT: '{value}' must be a port from 1 to "
                                                  "65535"))

    def test_a_port_that_is_taken_is_one_warning(self):
        with socket.socket() as taken:
            taken.bind(("", 0))
            taken.listen()
            port = taken.getsockname()[1]
            code, out, err = self.run_job(*worker("say", "ran"), env={"TORCHELASTIC_HEALTH_CHECK_PORT": str(port)})
        self.assertEqual((code, out), (0, "ran"))
        self.assertRegex(err, rf"^ddprun: TORCHELASTIC_HEALTH_CHECK_PORT {port}: the port is held by pid {os.getpid()} \(.*\); "
                              "nobody can ask whether this agent is alive, the job goes on$")


if __name__ == "__main__":
    main()
