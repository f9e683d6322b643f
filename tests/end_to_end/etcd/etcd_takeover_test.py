"""The node that hosts is lost, and etcd alone decides who goes on (--rdzv-backend=etcd), with a real etcd."""

import os
import shutil
import time
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from etcd_test import HEARTBEAT, PREFIX, PREEMPTED, UNAVAILABLE, EtcdTest
from support import worker

ROUND = f"{PREFIX}/run_job/round"


class EtcdTakeover(EtcdTest):
    def elastic(self, nnodes="1:2", *words):
        return self.node(nnodes, *(words or worker("print-place", "exit-zero-on-term")), flags=("--heartbeat", HEARTBEAT, "--max-restarts", 3, "--grace", 2))

    def runs(self, agent, node, nodes):
        agent.wait_for_line(f"^place {node} of {nodes} nodes")
        agent.wait_for_line("^ready$")

    def pair(self, count=2, nnodes="1:2"):
        """That many agents in one recorded round; the host first."""
        first = self.elastic(nnodes)
        self.runs(first, 0, 1)
        agents = [first]
        for number in range(1, count):
            agents.append(self.elastic(nnodes))
            for agent in agents:
                agent.wait_for_line(f"^place . of {number + 1} nodes")
                agent.wait_for_line("^ready$")
        self.recorded(epoch=0, round=count - 1)
        return agents

    def recorded(self, **facts):
        """Waits until etcd has that round."""
        return self.etcd.wait_for_keys(lambda keys: facts.items() <= keys.get(ROUND, {}).items())[ROUND]

    def end(self, *agents):
        for agent in agents:
            agent.send(signal.SIGTERM)
        self.assertEqual([agent.wait() for agent in agents], [PREEMPTED] * len(agents), agents[0].err())
        self.assert_nothing_left()


class Survivor(EtcdTakeover):
    def test_the_host_of_two_is_killed_and_the_other_one_goes_on(self):
        host, second = self.pair()
        host.send(signal.SIGKILL)
        host.wait()
        second.wait_for_line("^ddprun: this node leads the job now$")
        self.runs(second, 0, 1)
        self.assertEqual(self.host_of(), second.pid)
        self.assertEqual(self.recorded(epoch=1, round=2)["pid"], second.pid)
        third = self.elastic()
        for agent in (second, third):
            self.runs(agent, ".", 2)
        self.end(second, third)

    def test_the_host_of_two_is_frozen_and_the_other_one_goes_on_alone(self):
        host, second = self.pair()
        host.send(signal.SIGSTOP)
        self.runs(second, 0, 1)
        self.assertEqual(self.recorded(epoch=1, round=2)["pid"], second.pid)
        host.send(signal.SIGCONT)
        self.assertEqual(host.wait(), UNAVAILABLE)
        self.assertRegex(host.err(), rf"the agent on \S+ \(pid {second.pid}\) leads the job now, as etcd says")
        self.assertEqual(host.out().count("place "), 2)
        self.assertEqual(second.out().count("place "), 2)
        self.end(second)

    def test_of_two_the_host_goes_on_when_the_other_is_frozen(self):
        host, second = self.pair()
        second.wait_until_idle()  # As in takeover_test.py.
        second.send(signal.SIGSTOP)
        self.runs(host, 0, 1)
        self.assertEqual(self.recorded(epoch=0, round=2)["pid"], host.pid)
        second.send(signal.SIGCONT)
        self.assertEqual(second.wait(), UNAVAILABLE)
        self.end(host)

    def test_three_lose_one_host_after_the_other(self):
        agents = self.pair(3, "1:3")
        for left in (2, 1):
            agents.pop(0).send(signal.SIGKILL)
            for agent in agents:
                agent.wait_for_line(f"^place . of {left} nodes")
                agent.wait_for_line("^ready$")
            agents.sort(key=lambda agent: agent.pid != self.host_of())
        self.end(*agents)

    def test_the_host_is_signalled_and_the_other_one_goes_on(self):
        host, second = self.pair()
        host.send(signal.SIGTERM)
        self.runs(second, 0, 1)
        self.assertEqual(host.wait(), PREEMPTED)
        self.end(second)

    def test_all_are_killed_and_begin_anew(self):
        for agent in self.pair():
            agent.send(signal.SIGKILL)
            agent.wait()
        self.end(*self.pair())


class WithoutEtcd(EtcdTakeover):
    def test_the_host_is_killed_and_nobody_can_say_who_goes_on(self):
        host, second = self.pair()
        self.etcd.stop()
        host.send(signal.SIGKILL)
        host.wait()
        second.wait_for_line(f"^ddprun: who leads the job next, etcd decides: .*cannot connect to {self.etcd.endpoint}")
        self.assertEqual(second.wait(), UNAVAILABLE)
        self.assertRegex(second.err(), f"etcd at {self.etcd.endpoint} says who leads the job next.*: cannot connect to {self.etcd.endpoint}")
        self.assertEqual(second.out().count("place "), 1)

    def test_a_member_is_frozen_and_the_others_wait_for_etcd(self):
        host, second = self.pair()
        self.etcd.stop()
        second.wait_until_idle()  # As in takeover_test.py.
        second.send(signal.SIGSTOP)
        host.wait_for_line("^ddprun: the job goes on when etcd says that no other node leads it: cannot connect to")
        self.assertEqual(host.out().count("place "), 2)
        self.etcd.start()
        self.runs(host, 0, 1)
        second.send(signal.SIGCONT)
        self.assertEqual(second.wait(), UNAVAILABLE)
        self.end(host)

    def test_etcd_has_lost_its_data_and_so_the_host_does_not_go_on_without_one_that_may_live(self):
        host, second = self.pair()
        time.sleep(HEARTBEAT)  # Until then nobody can have taken the job over, and the record is begun anew; no event ends that.
        self.etcd.stop()
        shutil.rmtree(os.path.join(self.folder.name, "data"))
        self.etcd.start()
        self.assertEqual(self.host_of(), host.pid)
        second.wait_until_idle()  # As in takeover_test.py.
        second.send(signal.SIGSTOP)
        self.assertEqual(host.wait(), UNAVAILABLE)
        self.assertIn("etcd has lost the job's last round, so another node may lead the job by now", host.err())
        second.send(signal.SIGCONT)
        self.assertEqual(second.wait(), UNAVAILABLE)
        self.assert_nothing_left()

    def test_a_worker_fails_and_the_job_begins_again(self):
        fails = os.path.join(self.folder.name, "fails")
        agents = [self.elastic("2", *worker("print-place", "fail-when-file", fails)) for _ in range(2)]
        for agent in agents:
            agent.wait_for_line("^place . of 2 nodes")
            agent.wait_for_line("^ready$")
        self.etcd.stop()
        open(fails, "w", encoding="ascii").close()
        for agent in agents:
            agent.wait_for_line("^place . of 2 nodes")
            self.assertNotEqual(agent.wait(), UNAVAILABLE)
            self.assertNotIn("etcd says", agent.err())


if __name__ == "__main__":
    if shutil.which("etcd") is None:
        print("skipped: there is no etcd (Debian's etcd-server)")
        sys.exit(77)
    support.main()
