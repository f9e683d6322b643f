"""The node that hosts the rendezvous is lost, leaves or comes back: the others go on under another coordinator."""

import contextlib
import ctypes
import os
import re
import signal
import socket
import struct
import sys
import tempfile
import time

import process_tree
from agents_test import AgentsTest
from elastic_test import PREEMPTED, UNAVAILABLE, Elastic
from support import main, worker


# Longer where everything is slow.
HEARTBEAT = 4 if os.environ.get("DDPRUN_SANITIZED") else 3
BRIEF = ("--heartbeat", HEARTBEAT, "--grace", 2)


def sockets_of(pid, port):
    """The sockets by which that process listens, and is connected, at this port, as ours, too."""
    pidfd_getfd = 438  # the call's number, on all machines
    process = os.pidfd_open(pid)
    listener, connections = None, []
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                    continue
            except FileNotFoundError:  # closed meanwhile
                continue
            found = socket.socket(fileno=ctypes.CDLL(None, use_errno=True).syscall(pidfd_getfd, process, int(name), 0))
            if found.family not in (socket.AF_INET, socket.AF_INET6) or found.getsockname()[1] != port:
                found.close()
            elif found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                listener = found
            else:
                connections.append(found)
    finally:
        os.close(process)
    return listener, connections


def reset(connection):
    """Ends it as a process does that dies with something unread."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class Takeover(Elastic):
    def all_run(self, nnodes, count, *flags):
        """That many agents in one round; the first one hosts."""
        agents = [self.node(nnodes, "--last-call", 3600, "--node-rank", number, *flags, hosts=int(number == 0))
                  for number in range(count)]
        for number, agent in enumerate(agents):
            self.runs(agent, number, count, number, count)
        return agents

    def kill(self, agent):
        agent.send(signal.SIGKILL)
        agent.wait()

    def end(self, *agents):
        agents[0].send(signal.SIGTERM)
        for agent in agents[1:]:
            agent.send(signal.SIGTERM)
        self.assertEqual([agent.wait() for agent in agents], [PREEMPTED] * len(agents))


class Losses(Takeover):
    def test_a_host_that_dies_slowly(self):
        host, second = self.all_run("1:2", 2, *BRIEF, "--verbose")
        listener, connections = sockets_of(host.pid, self.port)
        self.kill(host)
        for connection in connections:
            reset(connection)
        # As long as something listens there, that could have been a connection that somebody has cut, and the host alive.
        second.wait_for_line("^ddprun: would lead the job as node 1 ")
        listener.close()
        self.runs(second, 0, 1, 0, 1)
        self.end(second)

    def test_the_survivors_go_on_and_the_host_comes_back_to_its_place(self):
        host, second, third = self.all_run("1:3", 3)
        self.kill(host)
        second.wait_for_line(r"^ddprun: node 0 \(\S+\) lost: the connection to 127.0.0.1:\d+ was lost$")
        second.wait_for_line("^ddprun: the nodes that are left choose another coordinator$")
        second.wait_for_line("^ddprun: this node leads the job now$")
        third.wait_for_line(r"^ddprun: node 0 \(\S+\) was lost; another round with 2 nodes \(resize 1\) follows in \d+ ms$")
        self.runs(second, 0, 2, 0, 2)
        self.runs(third, 1, 2, 1, 2)
        again = self.node("1:3", "--last-call", 3600, "--node-rank", 0, hosts=1)
        again.wait_for_line(r"^ddprun: the job runs already; its coordinator is at 127.0.0.1:\d+$")
        for number, agent in enumerate((again, second, third)):
            self.runs(agent, number, 3, number, 3)
        self.end(second, third, again)
        self.assertIn("resizes so far: 2", second.err())

    def test_of_two_nodes_the_other_one_goes_on(self):
        host, second = self.all_run("1:2", 2)
        self.kill(host)
        self.runs(second, 0, 1, 0, 1)
        self.end(second)

    def test_one_coordinator_after_the_other(self):
        agents = self.all_run("1:4", 4)
        for left in (3, 2, 1):
            self.kill(agents.pop(0))
            for number, agent in enumerate(agents):
                self.runs(agent, number, left, number, left)
        self.end(*agents)

    def test_a_spare_finds_the_new_coordinator_however_long_it_has_waited(self):
        host = self.host("2:3", "--spares", 1, "--last-call", 3600, "--node-rank", 0)
        second = self.node("2:3", "--spares", 1, "--node-rank", 1)
        self.runs(host, 0, 2, 0, 2)
        self.runs(second, 1, 2, 1, 2)
        spare = self.node("2:3", "--spares", 1, "--node-rank", 2, "--join-timeout", 10)
        begun = time.monotonic()
        spare.wait_for_line("^ddprun: the job has its 2 nodes; this one waits for a place$")
        # Its own time to join has to be over, of which no event tells.
        time.sleep(max(0.0, begun + 10.5 - time.monotonic()))
        self.kill(host)
        self.runs(second, 0, 2, 0, 2)
        self.runs(spare, 1, 2, 1, 2)
        self.end(second, spare)

    def test_a_job_of_a_fixed_number_waits_for_its_host(self):
        flags = ("--max-restarts", 2)
        host, second = self.all_run(2, 2, *flags)
        self.kill(host)
        second.wait_for_line(r"^ddprun: node 0 \(\S+\) was lost; restart 1 of 2")
        second.wait_for_line("^ddprun: joined 1/2, missing node 0; ")
        host = self.node(2, "--node-rank", 0, *flags, hosts=1)
        self.runs(host, 0, 2, 0, 2)
        self.runs(second, 1, 2, 1, 2)
        self.end(second, host)

    def test_no_failover(self):
        host, second, third = self.all_run("1:3", 3, "--failover", "off")
        self.kill(host)
        self.assertEqual((second.wait(), third.wait()), (UNAVAILABLE, UNAVAILABLE))
        self.assertNotIn("coordinator", second.err())


class Leaving(Takeover):
    def test_the_host_is_signalled_and_the_others_go_on(self):
        host, second, third = self.all_run("1:3", 3)
        host.send(signal.SIGTERM)
        self.runs(second, 0, 2, 0, 2)
        self.runs(third, 1, 2, 1, 2)
        self.assertEqual(host.wait(), PREEMPTED)
        self.assertIn("the job goes on without this node", host.err())
        self.assertRegex(third.err(), r"signal 15 to the agent of node 0 \(\S+\); another round with 2 nodes \(resize 1\) follows")
        self.end(second, third)


class Standstill(Takeover):
    def test_a_host_that_stood_still_finds_out_that_the_others_went_on(self):
        host, second, third = self.all_run("1:3", 3, *BRIEF)
        host.send(signal.SIGSTOP)
        second.wait_for_line(rf"^ddprun: node 0 \(\S+\) lost: no heartbeat for {HEARTBEAT} s$")
        self.runs(second, 0, 2, 0, 2)
        self.runs(third, 1, 2, 1, 2)
        host.send(signal.SIGCONT)
        self.assertEqual(host.wait(), UNAVAILABLE)
        self.assertRegex(host.err(), "only . of 3 nodes are left here: the others may go on without them")
        self.assertEqual(len(re.findall("^place", host.out(), re.MULTILINE)), 1)
        self.end(second, third)

    def test_who_stood_still_for_a_moment_takes_the_job_over_all_the_same(self):
        host, second, third = self.all_run("1:3", 3, *BRIEF)
        host.send(signal.SIGSTOP)
        second.send(signal.SIGSTOP)
        # How long it stands still is what is tested; there is no event to wait for.
        time.sleep(HEARTBEAT / 2)
        second.send(signal.SIGCONT)
        second.wait_for_line(rf"^ddprun: node 0 \(\S+\) lost: no heartbeat for {HEARTBEAT} s$")
        self.runs(second, 0, 2, 0, 2)
        self.runs(third, 1, 2, 1, 2)
        host.send(signal.SIGCONT)
        self.assertEqual(host.wait(), UNAVAILABLE)
        self.end(second, third)

    def test_of_two_the_one_without_the_coordinator_ends(self):
        host, second = self.all_run("1:2", 2, *BRIEF)
        second.wait_until_idle()  # It may take longer than the limit until it has told that its workers run.
        second.send(signal.SIGSTOP)
        self.runs(host, 0, 1, 0, 1)
        second.send(signal.SIGCONT)
        self.assertEqual(second.wait(), UNAVAILABLE)
        self.end(host)

    def test_a_minority_says_that_it_is_one(self):
        host, second = self.all_run("1:2", 2, *BRIEF)
        host.send(signal.SIGSTOP)
        self.assertEqual(second.wait(), UNAVAILABLE)
        self.assertIn("1 of 2 nodes found each other, which is no majority: the others may go on without them", second.err())
        host.send(signal.SIGCONT)
        self.runs(host, 0, 1, 0, 1)
        self.end(host)


# Rank 1 of the first round exits with 7 when it goes on; who is left waits for a file.
FAILS_WHEN_CONTINUED = """
import os, signal, sys, time
is_meant = (os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]) == ("1", "0")
signal.signal(signal.SIGCONT, lambda *_: os._exit(7) if is_meant else None)
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)  # The coming of a file is no event for Python.
"""


class WholeNodes(AgentsTest):
    """All processes of a node are stopped, as a suspended machine or container is, and go on."""

    def job(self, *flags):
        """Two agents whose workers wait for a file, once all are ready; and what makes that."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        go = os.path.join(folder.name, "go")
        words = worker("say", "ready", "wait-for-file", go)
        agents = [self.agent(rank, *words, nproc=2, flags=("--heartbeat", HEARTBEAT, *flags)) for rank in (0, 1)]
        for agent in agents:
            agent.wait_for_line("^ready$", count=2)
            agent.wait_until_idle()  # It may take longer than the limit until it has told that they run.
        return agents, lambda: open(go, "w", encoding="ascii").close()

    def send_all(self, agent, number):
        for pid in process_tree.all_below(agent.pid):
            with contextlib.suppress(ProcessLookupError):  # An agent that goes on ends its workers at once.
                os.kill(pid, number)

    def test_a_job_that_stands_still_and_goes_on_goes_on(self):
        for order, gap, flags in (((0, 1), 0, ()), ((0, 1), 0.5, ("--max-restarts", 1)), ((1, 0), 0.5, ()),
                                  ((1, 0), 0.5, ("--max-restarts", 1))):
            agents, go = self.job(*flags)
            for agent in agents:
                self.send_all(agent, signal.SIGSTOP)
            # How long they stand still, and how far apart they go on, is what is tested; there is no event to wait for.
            time.sleep(3 * HEARTBEAT)
            for node in order:
                self.send_all(agents[node], signal.SIGCONT)
                # Likewise no event.
                time.sleep(gap * HEARTBEAT)
            go()
            self.assertEqual([agent.wait() for agent in agents], [0, 0], agents[0].err() + agents[1].err())
            for agent in agents:
                self.assertEqual(agent.err(), "")
                self.assertEqual(agent.out().count("ready"), 2)  # in one round

    def test_a_worker_that_fails_as_all_go_on_has_failed(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        go = os.path.join(folder.name, "go")
        agents = [self.agent(rank, sys.executable, "-c", FAILS_WHEN_CONTINUED, go, nproc=1,
                             flags=("--heartbeat", HEARTBEAT, "--max-restarts", 1)) for rank in (0, 1)]
        for agent in agents:
            agent.wait_for_line("^ready$")
            agent.wait_until_idle()  # As above.
            self.send_all(agent, signal.SIGSTOP)
        # As above no event. The agents hear of the failure before they hear of each other.
        time.sleep(3 * HEARTBEAT)
        for agent in agents:
            for pid in set(process_tree.all_below(agent.pid)) - {agent.pid}:
                os.kill(pid, signal.SIGCONT)
        time.sleep(0.4 * HEARTBEAT)
        for agent in agents:
            agent.send(signal.SIGCONT)
        agents[0].wait_for_line(r"rank 1 on node 1 \(.*\): exit code 7; restart 1 of 1")
        open(go, "w", encoding="ascii").close()
        self.assertEqual([agent.wait() for agent in agents], [0, 0], agents[0].err() + agents[1].err())

    def test_a_node_that_stood_still_while_the_others_went_on_hears_so(self):
        agents, go = self.job()
        self.send_all(agents[1], signal.SIGSTOP)
        self.assertEqual(agents[0].wait(), 69)
        go()
        self.send_all(agents[1], signal.SIGCONT)
        self.assertEqual(agents[1].wait(), 69)
        self.assertRegex(agents[1].err(), r"node 1 \(.*\) lost: (it stood still for about \d+ s|the connection)")

    def test_a_node_that_stands_still_for_less_than_the_limit_is_no_news(self):
        agents, go = self.job("--heartbeat", 8)
        self.send_all(agents[1], signal.SIGSTOP)
        # Likewise no event.
        time.sleep(1)
        self.send_all(agents[1], signal.SIGCONT)
        go()
        self.assertEqual([agent.wait() for agent in agents], [0, 0])
        self.assertEqual(agents[0].err() + agents[1].err(), "")


if __name__ == "__main__":
    main()
