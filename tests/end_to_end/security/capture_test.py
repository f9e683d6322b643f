"""What a listener between two nodes hears of an unmodified PyTorch job: every frame is captured, as tcpdump does.

Needs root for the networks, and the Debian package python3-torch; without them the test is skipped.
"""

import os
import select
import socket
import struct
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from node_network import NodeNetwork, isolate
from support import EndToEndTest

support.HANG_GUARD = 120.0
SYSTEM_PYTHON = "/usr/bin/python3"  # the one that Debian's python3-torch is for
PORT = 29500
SECRET = "a-secret-for-tests-0123456789"
KEY, VALUE = "a-key-nobody-may-know-of", "a-value-nobody-may-know-of"
# Some of what PyTorch itself names in its store, in its releases so far.
OF_PYTORCH = ("init/", "default_pg", "store_based_barrier_key")

PROGRAM = f"""
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
store = dist.distributed_c10d._get_default_store()
store.set("{KEY}-" + str(rank), "{VALUE}-" + str(rank))
heard = store.get("{KEY}-" + str(1 - rank)).decode()
total = torch.ones(1)
dist.all_reduce(total)
print("heard", heard, "sum", int(total.item()), flush=True)
dist.destroy_process_group()
"""


class Capture:
    """All that goes over one device from now on; streams() stops and puts the bytes of each direction in order."""

    ETH_P_ALL = 3
    SOL_PACKET, PACKET_STATISTICS = 263, 6
    SO_RCVBUFFORCE = 33
    BUFFER = 64 << 20

    def __init__(self, device):
        self.frames = []
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(self.ETH_P_ALL))
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, self.SO_RCVBUFFORCE, self.BUFFER)
        except PermissionError:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.BUFFER)
        self.socket.bind((device, self.ETH_P_ALL))
        self.stop, self.stopper = socket.socketpair()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while True:
            ready, _, _ = select.select([self.socket, self.stop], [], [])
            if self.socket in ready:
                self.frames.append(self.socket.recv(1 << 18))
            elif ready:
                return

    def streams(self, port):
        """The bytes of each connection of that port, each direction for itself. Nothing may be missing."""
        self.stopper.close()
        self.reader.join(timeout=support.HANG_GUARD)
        _, dropped = struct.unpack("II", self.socket.getsockopt(self.SOL_PACKET, self.PACKET_STATISTICS, 8))
        self.socket.close()
        self.stop.close()
        assert dropped == 0, f"{dropped} frames were not captured"
        segments = {}
        for frame in self.frames:
            self._sort_in(frame, port, segments)
        return [self._join(parts) for parts in segments.values()]

    @staticmethod
    def _sort_in(frame, port, segments):
        if len(frame) < 54 or frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
            return
        packet = frame[14:]
        header, length = (packet[0] & 15) * 4, int.from_bytes(packet[2:4], "big")
        tcp = packet[header:length or len(packet)]
        source, sink, sequence = struct.unpack("!HHI", tcp[:8])
        data = tcp[(tcp[12] >> 4) * 4:]
        if port in (source, sink) and data:
            segments.setdefault((packet[12:20], source, sink), {}).setdefault(sequence, []).append(data)

    @staticmethod
    def _join(parts):
        """In the order of their places, which may pass 2^32; what was sent again is there once."""
        one = next(iter(parts))
        placed = sorted(((place - one + 2**31) % 2**32, max(same, key=len)) for place, same in parts.items())
        stream = bytearray()
        for place, data in placed:
            at = place - placed[0][0]
            assert at <= len(stream), "a segment is missing"
            stream[at:at + len(data)] = data
        return bytes(stream)


class CaptureTest(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        tried = subprocess.run([SYSTEM_PYTHON, "-c", "import torch.distributed"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            raise unittest.SkipTest(f"PyTorch is not installed (Debian package python3-torch): {tried.stderr.strip().splitlines()[-1:]}")

    def captured(self, *flags, **variables):
        """All that two nodes of a PyTorch job say to each other over the job's port, and what each worker has printed."""
        environment = {"GLOO_SOCKET_IFNAME": "eth0", "XDG_CONFIG_HOME": "/does/not/exist", **variables}
        with NodeNetwork(2) as network:
            capture = Capture("port1")
            agents = [self.launch("--nnodes=2", f"--node-rank={node}", "--nproc-per-node=1",
                                  f"--master-addr={network.address(0)}", f"--master-port={PORT}", *flags,
                                  SYSTEM_PYTHON, "-B", "-c", PROGRAM, prefix=network.prefix(node), env=environment)
                      for node in (0, 1)]
            codes = [agent.wait() for agent in agents]
            heard = b"".join(capture.streams(PORT))
        self.assertEqual(codes, [0, 0], "".join(agent.err() for agent in agents))
        self.assertEqual([agent.out() for agent in agents], [f"heard {VALUE}-1 sum 2", f"heard {VALUE}-0 sum 2"])
        return heard

    def assert_shown(self, heard):
        for text in (KEY, VALUE):
            self.assertTrue(text.encode() in heard, f"{text} was not heard")
        self.assertTrue(any(name.encode() in heard for name in OF_PYTORCH), "no name of PyTorch's was heard")

    def test_without_a_secret_the_store_is_heard(self):
        self.assert_shown(self.captured())

    def test_with_a_secret_nothing_of_the_store_is(self):
        heard = self.captured(DDPRUN_SECRET=SECRET)
        self.assertTrue(b"DDPS" in heard, "nobody has begun a sealed conversation")
        for text in (KEY, VALUE, *OF_PYTORCH):
            self.assertFalse(text.encode() in heard, f"{text} was heard")

    def test_a_store_that_is_to_be_direct_is_heard_with_a_secret_too(self):
        self.assert_shown(self.captured("--store=direct", DDPRUN_SECRET=SECRET))


if __name__ == "__main__":
    isolate()
    support.main()
