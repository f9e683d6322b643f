"""Who has the job's key: the agents, and no other process of theirs, nor what is written down for later."""

import hashlib
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from process_tree import all_below
from support import EndToEndTest, Launcher, free_port, worker

HEX = hashlib.sha256(b"a key for tests").hexdigest()
SECRET = "ddprun-" + HEX + hashlib.blake2b(HEX.encode(), digest_size=16).hexdigest()[:8]
RUN_ID = "a-job-with-a-key"
KEY = hashlib.blake2b(b"ddprun psk 1" + RUN_ID.encode(), key=HEX.encode(), digest_size=32).digest()


def memory_of(pid):
    """All of a process's memory that it may write to."""
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            begin, end = (int(number, 16) for number in line.split()[0].split("-"))
            if "rw" not in line.split()[1]:
                continue
            try:
                memory.seek(begin)
                yield memory.read(end - begin)
            except OSError:  # Of a device, or gone.
                pass


def name_of(pid):
    with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
        return file.read().strip()


def holders(launcher, *needles):
    """Of the processes of a launcher, those that have one of these: (pid, which)."""
    found = set()
    for pid in all_below(launcher.process.pid):
        for part in memory_of(pid):
            found |= {(pid, needle) for needle in needles if needle in part}
    return found


class Keys(EndToEndTest):
    def setUp(self):
        super().setUp()
        try:
            sum(map(len, memory_of(os.getpid())))
        except OSError as error:
            self.skipTest(f"no process's memory can be read here: {error}")
        self.port = free_port()

    def agent(self, rank, *words, **variables):
        launcher = Launcher(["--nnodes=2", f"--node-rank={rank}", "--master-addr=127.0.0.1", f"--master-port={self.port}",
                             f"--rdzv-id={RUN_ID}", *words], env={**os.environ, "DDPRUN_SECRET": SECRET, **variables})
        self.addCleanup(launcher.process.kill)
        return launcher

    def test_the_agents_have_the_key_and_no_process_of_theirs(self):
        agents = [self.agent(rank, *words, *worker("ready-then-wait")) for rank, words in ((0, ()), (1, ("--check",)))]
        for agent in agents:
            agent.wait_for_line("^ready$")
        for agent in agents:
            pid = agent.process.pid
            self.assertGreaterEqual(len(all_below(pid)), 4, [name_of(one) for one in all_below(pid)])
            self.assertEqual({(name_of(one), "text" if needle == SECRET.encode() else "key")
                              for one, needle in holders(agent, KEY, SECRET.encode())}, {(name_of(pid), "key")})
        agents[0].send(signal.SIGTERM)
        for agent in agents:
            agent.wait()

    def test_a_starter_and_its_relays_have_not_the_users_secret(self):
        # Theirs is of this job alone.
        starter = Launcher(["--hosts=localhost,127.0.0.1", "--master-addr=127.0.0.1", *worker("ready-then-wait")],
                           env={**os.environ, "DDPRUN_SECRET": SECRET})
        self.addCleanup(starter.process.kill)
        for _ in range(2):
            starter.wait_for_line("ready$")
        self.assertGreaterEqual(len(all_below(starter.process.pid)), 9)
        self.assertEqual(holders(starter, SECRET.encode(), HEX.encode()), set())
        starter.send(signal.SIGTERM)
        starter.wait()


if __name__ == "__main__":
    support.main()
