"""Texts that other machines send: none of them may move the cursor of a terminal here, or hide what is there."""

import json
import os
import re
import socket
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from support import EndToEndTest

MAGIC = b"DDPR"
# A title, a cleared screen, both as C1 controls, text from right to left, a line that takes another one's place, NUL.
HOSTILE = "\x1b]0;swallowed\x07\x1b[2J\x9d0;title\x9c\x9b2J\u202e\u2066a\rb\x00c"
HARMFUL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

FAILURE = {"kind": "worker_failed", "node_rank": 0, "host": "gpu" + HOSTILE, "rank": 0, "local_rank": 0, "pid": 7,
           "exit_code": 3, "signal": 0, "core_dumped": False, "unix_time_ms": 0, "message": HOSTILE,
           "error_message": HOSTILE, "traceback": HOSTILE, "hint": HOSTILE, "last_lines": [HOSTILE], "witness": -1,
           "accusation": "", "testimony": "", "left": [],
           "others": [{"ranks": [{"first": 0, "last": 0}], "manner": "waited", "doing": HOSTILE}]}


def membership(number, **members):
    return {"round": number, "job_id": "job-1", "start_unix_s": 1_764_000_000, "group_rank": 1, "group_world_size": 2, "place": 1,
            "base_rank": 1, "world_size": 2, "role_base_rank": 1, "role_world_size": 2, "restart_count": number,
            "max_restarts": 1, "resizes": 0, "restart_reason": "", "coordinator_rank": 0, "reached_at": "",
            "through_doors": False, **members}


class FalseNode:
    """Node 0 of a job, as far as its one caller can tell."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(support.HANG_GUARD)
        self.port = self.listener.getsockname()[1]

    def accept(self):
        self.connection, _ = self.listener.accept()
        self.connection.settimeout(support.HANG_GUARD)
        self.stream = self.connection.makefile("rb")
        assert self.stream.read(len(MAGIC)) == MAGIC
        self.expect("hello")

    def expect(self, kind):
        while True:
            length = self.stream.read(4)
            if not length:
                raise AssertionError(f"the agent went without {kind}")
            message = json.loads(self.stream.read(int.from_bytes(length, "little")), strict=False)
            if message["type"] == kind:
                return message

    def say(self, kind, **members):
        text = json.dumps({"type": kind, **members}).encode()
        self.connection.sendall(len(text).to_bytes(4, "little") + text)

    def close(self):
        self.stream.close()
        self.connection.close()
        self.listener.close()


class Texts(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.log = os.path.join(self.folder, "launcher.log")
        self.node = FalseNode()
        self.addCleanup(self.node.close)

    def join(self, *words):
        job = self.launch("-v", "--log-file", self.log, "--nnodes=2", "--node-rank=1", "--master-addr=127.0.0.1",
                          f"--master-port={self.node.port}", "--nproc-per-node=1", *words)
        self.node.accept()
        return job

    def check(self, job):
        with open(self.log, encoding="utf-8") as log:
            for name, text in (("screen", job.err()), ("file", log.read()), ("workers", job.out())):
                self.assertIsNone(HARMFUL.search(text), f"{name}: {text!r}")
                self.assertNotIn("swallowed", text, name)

    def test_a_job_of_hostile_texts(self):
        job = self.join("--no-python", "sh", "-c",
                        'test "$TORCHELASTIC_RESTART_COUNT" = 1 || { echo up; exec sleep 1000; }; '
                        'echo "reason $DDPRUN_RESTART_REASON"; echo "job $DDPRUN_RUN_ID"')
        say = self.node.say
        say("welcome", heartbeat_ms=600_000, seen_at=HOSTILE)
        say("waiting", joined=1, expected=2, missing=[0], present=[HOSTILE], at_most=2, last_call_ms=0,
            missing_hosts=[HOSTILE], hosts_missing=1)
        say("peer_refused", host=HOSTILE, pid=7, reason=HOSTILE)
        say("nodes_differ", differences=[HOSTILE])
        say("remark", text=HOSTILE)
        say("round_ready", **membership(0))
        job.wait_for_line("^up$")
        say("stop", round=0, cause=FAILURE, is_awaited=False)
        self.node.expect("workers_gone")
        say("restarting", cause=FAILURE, restart=1, max_restarts=1, delay_ms=0, resize=0, nodes=2)
        say("round_ready", **membership(1, job_id="job" + HOSTILE, restart_reason="gone" + HOSTILE))
        self.node.expect("workers_succeeded")
        say("finish", exit_code=3, failed=True, cause=FAILURE, message=HOSTILE, others=[], failed_too=0, stopped=0, lost=0,
            succeeded=1, restarts=[], resizes=[], unknown_nodes=[HOSTILE], unknown_node_count=1)
        self.node.expect("goodbye")
        self.node.connection.shutdown(socket.SHUT_RDWR)
        self.assertEqual(job.wait(), 3, job.err())
        self.assertIn("restart 1 of 1", job.err())
        self.assertRegex(job.out(), "(?m)^reason .*c$")
        self.assertRegex(job.out(), "(?m)^job .*c$")
        self.check(job)

    def test_a_refusal_of_hostile_texts(self):
        job = self.join("true")
        self.node.say("refused", reason="no" + HOSTILE, exit_code=77, other_job="")
        self.assertEqual(job.wait(), 77, job.err())
        self.check(job)


if __name__ == "__main__":
    support.main()
