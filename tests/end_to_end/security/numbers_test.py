"""Nodes that say numbers which no job has: they are lost, and stop or end nothing by their word."""

import json
import os
import socket
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from support import EndToEndTest, free_port, program, worker

MAGIC = b"DDPR"
UNAVAILABLE = 69
FAILURE = {"kind": "worker_failed", "node_rank": 1, "host": "liar", "rank": 1, "local_rank": 0, "pid": 7, "exit_code": 3,
           "signal": 0, "core_dumped": False, "unix_time_ms": 0, "message": "", "error_message": "", "traceback": "", "hint": "",
           "last_lines": [], "witness": -1, "accusation": "", "testimony": "", "others": [], "left": []}
FINISH = {"type": "finish", "exit_code": 0, "failed": False, "message": "", "others": [], "failed_too": 0, "stopped": 0, "lost": 0,
          "succeeded": 1, "restarts": [], "resizes": [], "unknown_nodes": [], "unknown_node_count": 0}
READY = {"type": "round_ready", "round": 0, "job_id": "false-1", "group_rank": 1, "group_world_size": 2, "place": 1,
         "base_rank": 1, "world_size": 2, "role_base_rank": 1, "role_world_size": 2, "restart_count": 0, "max_restarts": 0,
         "resizes": 0, "restart_reason": "", "coordinator_rank": 0, "reached_at": "",
         "through_doors": False}


class Conversation:
    """One end of a control connection, for what no program of ours would say."""

    def __init__(self, connection):
        self.connection = connection
        self.connection.settimeout(support.HANG_GUARD)

    def say(self, message):
        text = json.dumps(message).encode()
        self.connection.sendall(struct.pack("<I", len(text)) + text)

    def read(self, size):
        """So many bytes, or what came before the end."""
        found = b""
        while len(found) < size:
            try:
                some = self.connection.recv(size - len(found))
            except ConnectionResetError:
                break
            if not some:
                break
            found += some
        return found

    def hear(self):
        """The next message; None at the end."""
        head = self.read(4)
        return json.loads(self.read(struct.unpack("<I", head)[0])) if len(head) == 4 else None

    def hear_all(self):
        said = []
        while (message := self.hear()) is not None:
            said.append(message)
        return said


class NumbersTest(EndToEndTest):
    def agent(self, node_rank, port, *words, flags=()):
        return self.launch("--nnodes=2", "--node-rank", node_rank, "--nproc-per-node=1", "--master-addr=127.0.0.1",
                           "--master-port", port, "--allow-different", *flags, *words)


class FalseNode(NumbersTest):
    def hosts(self, count):
        """Node 0 of so many jobs, each with its port; all wait for node 1."""
        ports = [free_port() for _ in range(count)]
        agents = [(self.agent(0, port, *worker("ready-then-wait")), port) for port in ports]
        for agent, _ in agents:
            agent.wait_for_line("^ddprun: joined 1/2")
        return agents

    def join(self, port):
        """As node 1, with one worker; returns once the round has begun."""
        version = subprocess.run([program("ddprun"), "--version"], stdout=subprocess.PIPE, check=True, text=True).stdout.split()[1]
        connection = socket.create_connection(("127.0.0.1", port), timeout=support.HANG_GUARD)
        self.addCleanup(connection.close)
        connection.sendall(MAGIC)
        node = Conversation(connection)
        node.say({"type": "hello", "version": version, "run_id": "none", "node_rank": 1, "nnodes": 2, "min_nodes": 0,
                  "local_world_size": 1, "role": "default", "host": "liar", "pid": 4711, "nonce": 7, "wants_rank_ends": False,
                  "command": {"text": "", "digest": 0, "whole": 0}, "allow_different": True, "reached_at": "", "traits": [], "grace_ms": 0,
                  "meeting_address": "", "meeting_port": 0, "following": None, "seeks_port": False, "list_position": -1,
                  "list_size": 0, "addresses": [], "rank_order": "", "unfit": ""})
        while (message := node.hear())["type"] != "round_ready":
            self.assertIn(message["type"], ("welcome", "waiting", "heartbeat", "member_list"))
        return node

    def test_who_says_what_cannot_be_is_lost(self):
        failed = {"type": "worker_failed", "round": 0}
        lies = (
                ({"type": "notice_signal", "round": 0, "signal": 19, "requeue": False}, False),
                ({"type": "notice_signal", "round": 0, "signal": 9, "requeue": False}, False),
                ({"type": "notice_signal", "round": 0, "signal": -2**31, "requeue": False}, False),
                ({"type": "agent_signalled", "round": 0, "signal": 128, "reason": ""}, False),
                ({"type": "agent_signalled", "round": 0, "signal": 2**31 - 1, "reason": ""}, False),
                ({**failed, "failure": {**FAILURE, "exit_code": 0}}, False),
                ({**failed, "failure": {**FAILURE, "exit_code": 256}}, False),
                ({**failed, "failure": {**FAILURE, "rank": -7}}, False),
                ({**failed, "failure": {**FAILURE, "rank": 0}}, True),
                ({"type": "rank_succeeded", "round": 0, "rank": 0}, True))
        for (lie, is_told), (first, port) in zip(lies, self.hosts(len(lies))):
            with self.subTest(lie):
                node = self.join(port)
                first.wait_for_line("^ready$")
                node.say(lie)
                told = [message.get("reason") for message in node.hear_all() if message["type"] == "given_up"]
                self.assertEqual(told, ["what it said cannot be true"] if is_told else [])
                self.assertEqual(first.wait(), UNAVAILABLE, first.err())
                self.assertRegex(first.err(), r"node 1 \(liar\) lost: ")

    def test_the_truth_counts(self):
        [(first, port)] = self.hosts(1)
        node = self.join(port)
        first.wait_for_line("^ready$")
        node.say({"type": "worker_failed", "round": 0, "failure": FAILURE})
        while node.hear()["type"] != "stop":
            pass
        node.say({"type": "workers_gone", "round": 0, "all_zero": False, "progressed": False, "failed": False,
                  "others": [], "left": []})
        self.assertEqual(first.wait(), 3, first.err())


class FalseHost(NumbersTest):
    def test_an_agent_starts_and_ends_nothing_by_a_false_word(self):
        for lie in ({**READY, "world_size": -1}, {**READY, "base_rank": -9}, {**READY, "base_rank": 2}, {**READY, "group_rank": 2},
                    {**FINISH, "exit_code": 256}, {**FINISH, "failed": True, "failure": FAILURE},
                    {"type": "refused", "reason": "no", "exit_code": 0, "other_job": ""},
                    {"type": "refused", "reason": "no", "exit_code": 256, "other_job": ""},
                    {"type": "waiting", "joined": -5, "expected": 2**31 - 1, "missing": [], "present": [], "at_most": 2,
                     "last_call_ms": 0, "missing_hosts": [], "hosts_missing": 0},
                    {"type": "welcome", "heartbeat_ms": 0, "seen_at": ""}):
            with self.subTest(lie):
                self.lie_to_an_agent(lie)

    def lie_to_an_agent(self, lie):
        port = free_port()
        with socket.create_server(("127.0.0.1", port)) as server:
            answers = threading.Thread(target=self.answer_all, args=(server, lie), daemon=True)
            answers.start()
            agent = self.agent(1, port, *worker("say", "started"), flags=("--join-timeout=1",))
            self.assertEqual(agent.wait(), UNAVAILABLE, agent.err())
            server.shutdown(socket.SHUT_RDWR)
            answers.join()
            self.assertNotIn("started", agent.out())
            self.assertNotIn("-5", agent.err())

    @staticmethod
    def answer_all(server, lie):
        while True:
            try:
                connection, _ = server.accept()
            except OSError:  # the test is over
                return
            with connection:
                agent = Conversation(connection)
                if agent.read(len(MAGIC)) == MAGIC and agent.hear() is not None:
                    agent.say(lie)
                    agent.hear_all()


if __name__ == "__main__":
    support.main()
