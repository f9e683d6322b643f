"""What comes from the relay of a host: it speaks for the hosts behind it, and for nobody else."""

import os
import struct
import sys

HERE_FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE_FOLDER))
sys.path.insert(0, os.path.join(os.path.dirname(HERE_FOLDER), "start"))

import support
from start_test import StartTest

# A relay that answers the handshake, says what it is told to, and waits for the end.
FALSE_RELAY = r"""
import os, sys
os.write(1, b"ddprun-relay have\n" + bytes.fromhex(sys.argv[1]))
while os.read(0, 65536):
    pass
"""


def frame(kind, body):
    message = struct.pack("<Q", kind) + body
    return (struct.pack("<I", len(message)) + message + b"\n").hex()


def text(words):
    return struct.pack("<Q", len(words)) + words


def output(rank):
    return frame(0, struct.pack("<i?", rank, False) + text(b"forged\n"))


def port_taken(port):
    return frame(1, struct.pack("<i", port))


def runs(rank):
    return frame(2, struct.pack("<i", rank))


def ended(rank, code):
    return frame(3, struct.pack("<ii?", rank, code, False))


def failed(*ranks):
    return frame(4, struct.pack(f"<Q{len(ranks)}i", len(ranks), *ranks) + text(b"forged") + b"\0")


class FalseRelays(StartTest):
    def with_false_relay(self, frames, hosts="a,b", false="b", *flags):
        relay = self.path("relay.py")
        with open(relay, "w", encoding="utf-8") as file:
            file.write(FALSE_RELAY)
        rsh = self.script("false", f'[ "$1" = {false} ] && exec python3 {relay} {frames}\nexec /bin/sh -c "$2"')
        return self.run_start("--hosts", hosts, "--grace=1", *flags, "sh", "-c", "echo worker; sleep 1000", rsh=rsh)

    def test_what_is_said_of_other_hosts_is_not_believed(self):
        for name, frames in (("both have succeeded", ended(0, 0) + ended(1, 0)), ("node 0 failed", failed(0)),
                             ("both failed", failed(0, 1)), ("output of another", output(0)), ("another runs", runs(0)),
                             ("a port", port_taken(29500)), ("no rank", ended(-1, 0)), ("too large a rank", runs(2)),
                             ("no code", ended(1, 256)), ("a code below none", ended(1, -1))):
            with self.subTest(name):
                code, out, err = self.with_false_relay(frames)
                self.assertEqual((code, out), (71, ""), err)
                # On a slow machine the node that waits says so, too.
                self.assertEqual([line for line in err.splitlines() if "left to itself" not in line and "--join-timeout" not in line],
                                 ["ddprun: b: its relay says what cannot be true",
                                  "ddprun: 1 of 2 hosts could not be started, so the job is not run"])

    def test_a_success_is_node_0s_to_say(self):
        code, out, err = self.with_false_relay(ended(1, 0))
        self.assertNotEqual(code, 0, err)
        self.assertEqual(out, "")

    def test_a_relay_does_not_pass_on_what_one_behind_it_says_of_others(self):
        code, out, err = self.with_false_relay(ended(0, 0) + ended(3, 0), "a,b,c,d,e", "e", "--fan-out=2")
        self.assertEqual((code, out), (71, ""), err)
        self.assertIn("ddprun: e: its relay says what cannot be true\n", err + "\n")


if __name__ == "__main__":
    support.main()
