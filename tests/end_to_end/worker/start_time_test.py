#!/usr/bin/env python3
"""When the job was started, as all its ranks are told (DDPRUN_START_TIME), and in paths (%t, %j, %h, %r, %%)."""

import json
import os
import re
import signal
import socket
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from elastic_test import Elastic
from support import main

SAY = 'echo "start $DDPRUN_START_TIME"; '
WAIT = 'trap "exit 0" TERM; echo ready; while :; do sleep 0.05; done'


def stamp(seconds):
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(int(seconds)))


class StartTime(Elastic):
    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def starts(self, text):
        return re.findall(r"^start (\d+)$", text, re.MULTILINE)

    def test_equal_on_all_ranks_and_nodes_and_kept_over_restarts(self):
        before = int(time.time())
        go = os.path.join(self.folder, "go")
        fails_once = SAY + f'[ "$DDPRUN_ROUND" = 1 ] || {{ while [ "$RANK" != 3 ] || [ ! -e {go} ]; do sleep 0.05; done; exit 1; }}'
        agents = [self.node(2, "--node-rank", number, "--max-restarts", 1, hosts=int(number == 0), nproc=2,
                            words=("sh", "-c", fails_once)) for number in (0, 1)]
        for agent in agents:
            agent.wait_for_line("^start ", count=2)
        open(go, "w", encoding="ascii").close()
        self.assertEqual([agent.wait() for agent in agents], [0, 0])
        starts = [start for agent in agents for start in self.starts(agent.out())]
        self.assertEqual(len(starts), 8)
        self.assertEqual(len(set(starts)), 1, starts)
        self.assertTrue(before <= int(starts[0]) <= time.time(), starts)

    def test_kept_when_another_coordinator_takes_over_and_for_nodes_that_come(self):
        words = ("sh", "-c", SAY + WAIT)
        host = self.node("1:2", "--last-call", 3600, "--node-rank", 0, hosts=1, words=words)
        second = self.node("1:2", "--last-call", 3600, "--node-rank", 1, words=words)
        start = second.wait_for_line(r"^start (\d+)$")[1]
        second.wait_for_line("^ready$")
        host.send(signal.SIGKILL)
        host.wait()
        second.wait_for_line("^ready$")
        while int(time.time()) == int(start):
            time.sleep(0.01)  # That the clock shows another second is no event.
        third = self.node("1:2", "--last-call", 3600, "--node-rank", 0, hosts=1, words=words)
        self.assertEqual(third.wait_for_line(r"^start (\d+)$")[1], start)
        third.wait_for_line("^ready$")
        for agent in (second, third):
            agent.send(signal.SIGTERM)
        for agent in (second, third):
            agent.wait()
        self.assertEqual(set(self.starts(second.out() + "\n" + third.out())), {start})

    def test_in_paths(self):
        flags = ("--log-dir", self.folder + "/logs-%t-%j", "--log-file", self.folder + "/%h-%t.log", "--result-file",
                 self.folder + "/%j-%t-100%%.json", "--rdzv-id", "a/b", "--tee", 3)
        code, out, err = self.run_job(*flags, "sh", "-c", 'echo "start $DDPRUN_START_TIME"')
        self.assertEqual(code, 0, err)
        start = stamp(re.search(r"start (\d+)", out)[1])
        self.assertEqual(sorted(os.listdir(self.folder)),
                         sorted([f"logs-{start}-a_b", f"{socket.gethostname()}-{start}.log", f"a_b-{start}-100%.json"]))
        job, = os.listdir(os.path.join(self.folder, f"logs-{start}-a_b"))
        self.assertTrue(job.startswith("a_b_"), job)
        with open(os.path.join(self.folder, f"a_b-{start}-100%.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["outcome"], "succeeded")

    def test_the_number_of_the_node_in_paths(self):
        flags = [word for flag, value in (("--log-dir", "logs-%r"), ("--log-file", "log-%r"), ("--events", "events-%r"),
                                          ("--result-file", "%r-result")) for word in (flag, f"{self.folder}/{value}")]
        agents = [self.node(2, "--node-rank", number, *flags, hosts=int(number == 0), words=("true",)) for number in (0, 1)]
        self.assertEqual([agent.wait() for agent in agents], [0, 0])
        names = ("logs-{}", "log-{}", "events-{}", "{}-result")
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(name.format(number) for name in names for number in (0, 1)))
        with open(os.path.join(self.folder, "1-result"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["node_rank"], 1)

    def test_a_number_that_the_node_gets_only_later_is_refused(self):
        for flag in ("--log-dir", "--log-file", "--events", "--result-file"):
            code, _, err = self.run_job(flag, "/tmp/%r", "--nnodes", 2, "--rdzv-backend", "c10d", "true")
            self.assertEqual(code, 2, err)
            self.assertRegex(err, f"^ddprun: {flag} /tmp/%r: %r, the number of this node, is known only once it has joined; "
                                  "%h tells nodes apart, or give --node-rank$")

    def test_nodes_that_share_a_folder_have_one(self):
        flags = ("--log-dir", self.folder + "/%t", "--tee", 3)
        first = self.node(2, *flags, hosts=1, words=("sh", "-c", SAY))
        joined = time.time()
        while int(time.time()) == int(joined):
            time.sleep(0.01)  # That the clock shows another second is no event.
        second = self.node(2, *flags, words=("sh", "-c", SAY))
        self.assertEqual([first.wait(), second.wait()], [0, 0])
        start = re.search(r"start (\d+)", first.out())[1]
        self.assertEqual(os.listdir(self.folder), [stamp(start)])

    def test_other_signs_are_refused(self):
        for flag in ("--log-dir", "--log-file", "--events", "--result-file"):
            for value, sign in (("/tmp/%d", "%d"), ("/tmp/100%", "%")):
                code, _, err = self.run_job(flag, value, "true")
                self.assertEqual(code, 2, err)
                self.assertRegex(err, f"{flag}.*{re.escape(value)}.*{re.escape(sign)} is none of %t")

    def test_what_cannot_be_written_is_told_before_anything_starts(self):
        place = os.path.join(self.folder, "file")
        with open(place, "w", encoding="utf-8"):
            pass
        for flags in (("--log-dir", f"{place}/%t/logs", "--tee", 3), ("--result-file", f"{place}/%t.json"),
                      ("--log-file", f"{place}/%t")):
            code, out, err = self.run_job(*flags, "echo", "started")
            self.assertEqual((code, out), (2, ""), err)
            self.assertIn(flags[0], err)


if __name__ == "__main__":
    main()
