"""Thousands of callers who are not of the job: whoever repeats what he has heard, says nothing more, or half a Hello."""

import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from node_network import NodeNetwork, isolate
from strangers_test import PORT, PYTHON
from support import EndToEndTest

support.HANG_GUARD = 60.0
SECRET = {"DDPRUN_SECRET": "a-secret-for-tests-0123456789"}
NO_SECRET = {"XDG_CONFIG_HOME": "/nonexistent"}
FILES = 4096
CALLERS = 5_000
SILENT = 4_000
HALF_HELLOS = 700
MEMORY_KB = 600 * 1024
HELD_KB = 200 * 1024  # by a launcher to whom all of them speak at once
HANDSHAKE, ANSWER = 53, 48

# On the stranger's machine: so many calls of these words and so many bytes more, each of which waits for an answer of so many
# bytes, and then stays until the end of the input.
STRANGER = """
import resource, socket, sys, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
address, port, count, words, answer = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), bytes.fromhex(sys.argv[4]), int(sys.argv[5])
held, answered = [], 0
for _ in range(count):
    try:
        caller = socket.create_connection((address, port), timeout=2)
        caller.settimeout(30)  # Who has taken it may be late.
        held.append(caller)
        caller.sendall(words + b"{" * int(sys.argv[6]))
        time.sleep(0.0005)  # That each is heard before the next one comes is no event here.
        answered += len(caller.recv(answer, socket.MSG_WAITALL)) == answer if answer else 0
    except TimeoutError:
        break  # Nobody takes calls any more.
    except OSError:
        pass  # It has been sent away.
print("called", answered, flush=True)
sys.stdin.read()
"""


class Unproven(EndToEndTest):
    def setUp(self):
        super().setUp()
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        self.network = self.enterContext(NodeNetwork(3))
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.fifo = os.path.join(self.folder, "fail")
        os.mkfifo(self.fifo)

    def agent(self, number, limit, *flags, env):
        script = f'echo "round $TORCHELASTIC_RESTART_COUNT"; [ "$TORCHELASTIC_RESTART_COUNT$RANK" = 00 ] && read line <{self.fifo} && exit 3; exec sleep 1000'
        return self.launch("--nnodes=2", f"--node-rank={number}", "--nproc-per-node=1", f"--master-addr={self.network.address(0)}",
                           f"--master-port={PORT}", "--max-restarts=2", "--grace=2", *flags, "sh", "-c", script,
                           prefix=[*self.network.prefix(number), "bash", "-c", f'ulimit {limit}; exec "$@"', "bash"], env=env)

    def strangers(self, count, words, answer=0, more=0, node=0, port=PORT):
        """They are connected when this returns; how many have heard as much as a handshake's answer."""
        stranger = self.network.run(2, [PYTHON, "-c", STRANGER, self.network.address(node), str(port), str(count), words.hex(), str(answer), str(more)],
                                    stdin=-1, stdout=-1, text=True)
        self.addCleanup(stranger.communicate)
        return int(stranger.stdout.readline().split()[1])

    def heard_call(self, host):
        """The first words of an honest agent to node 0, as somebody hears them on the way."""
        with socket.create_server(("127.0.0.1", 0)) as ear:
            caller = self.launch("--nnodes=2", "--node-rank=1", "--master-addr=127.0.0.1", f"--master-port={ear.getsockname()[1]}", "true", env=SECRET)
            connection, _ = ear.accept()
            with connection:
                connection.settimeout(support.HANG_GUARD)
                words = connection.recv(HANDSHAKE, socket.MSG_WAITALL)
            caller.process.kill()
        self.assertEqual((len(words), words[:5]), (HANDSHAKE, b"DDPSa"), host.err())
        return words

    def restart(self, agents):
        """Node 0's worker is killed by its own word: all begin again."""
        with open(self.fifo, "w", encoding="ascii") as fifo:
            fifo.write("now\n")
        for agent in agents:
            agent.wait_for_line("^round 1$")

    def end(self, agents):
        agents[0].send(15)
        self.assertEqual([agent.wait() for agent in agents], [143] * len(agents), agents[0].err() + agents[-1].err())
        self.assertNotIn("open files", agents[0].err())

    def job_among(self, env, words, answer):
        host = self.agent(0, f"-n {FILES}", env=env)
        host.wait_for_line("joined 1/2")
        heard = words or self.heard_call(host)
        self.assertEqual(self.strangers(CALLERS, heard, answer) >= (CALLERS // 2 if answer else 0), True)
        # One who is of the job comes all the same, and each gets what a restart needs.
        agents = [host, self.agent(1, f"-n {FILES}", env=env)]
        for agent in agents:
            agent.wait_for_line("^round 0$")
        self.strangers(CALLERS, heard, answer)
        self.restart(agents)
        self.end(agents)

    def test_calls_that_are_played_again_leave_a_job_its_descriptors(self):
        self.job_among(SECRET, b"", ANSWER)

    def test_silence_behind_four_bytes_leaves_a_job_its_descriptors(self):
        self.job_among(NO_SECRET, b"DDPR", 0)

    def listeners(self, number):
        """Port of each listener at this node's own address -> how many connections wait there for somebody to take them."""
        shown = subprocess.run([*self.network.prefix(number), "ss", "-ltnH", "src", self.network.address(number)],
                               capture_output=True, text=True, check=True).stdout
        return {int(line.split()[3].rpartition(":")[2]): int(line.split()[1]) for line in shown.splitlines()}

    def test_silence_fills_no_queue_where_a_node_would_host(self):
        agents = [self.agent(number, f"-n {FILES}", env=NO_SECRET) for number in (0, 1)]
        for agent in agents:
            agent.wait_for_line("^round 0$")
        (port, _), = self.listeners(1).items()
        self.strangers(SILENT, b"", node=1, port=port)
        deadline = time.monotonic() + support.HANG_GUARD
        while (waiting := self.listeners(1)) != {port: 0}:
            self.assertLess(time.monotonic(), deadline, waiting)
            time.sleep(0.05)  # That another process takes a call is no event for us.
        self.restart(agents)
        self.end(agents)

    def test_half_a_hello_costs_no_megabyte(self):
        agents = [self.agent(number, f"-v {MEMORY_KB}", env=NO_SECRET) for number in (0, 1)]
        for agent in agents:
            agent.wait_for_line("^round 0$")
        for length in (1 << 20, (1 << 16) - 4):
            self.strangers(HALF_HELLOS, b"DDPR" + struct.pack("<I", length), more=length - 1_000)
        with open(f"/proc/{agents[0].pid}/status", encoding="ascii") as status:
            self.assertLess(int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1]), HELD_KB)
        self.restart(agents)
        self.end(agents)
        self.assertNotIn("bad_alloc", agents[0].err())


if __name__ == "__main__":
    isolate()
    support.main()
