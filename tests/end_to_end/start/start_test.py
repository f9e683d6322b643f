"""A job that one ddprun starts on several hosts: --hosts, by a remote shell that is a script on this machine."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import process_tree
import support
from support import processes_of_job, program, worker

HERE = ("--master-addr", "127.0.0.1")


class StartTest(support.EndToEndTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.rsh = self.script("rsh", 'exec /bin/sh -c "$2"')

    def path(self, name):
        return os.path.join(self.folder, name)

    def script(self, name, text):
        """A remote shell: called with a host and a line. A host has an environment of its own, and our mark in it."""
        mark, value = self.marker.split("=")
        lines = f"""#!/bin/sh
unset DDPRUN_CARRIED
export {mark}={value!r} HOSTNAME="$1" SSH_CONNECTION="from $1" TMPDIR={self.folder!r}
{text}
"""
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(lines)
        os.chmod(self.path(name), 0o700)
        return self.path(name)

    def start(self, *arguments, rsh=None, **options):
        return self.launch("--rsh", rsh or self.rsh, *HERE, *arguments, **options)

    def run_start(self, *arguments, **options):
        job = self.start(*arguments, **options)
        return job.wait(), job.out(), job.err()

    def relays(self, root):
        """Pid of each relay below `root` -> that of the relay (or the starter) above it."""
        table = process_tree.process_table()
        relays = {pid for pid, (_, name, _) in table.items() if name.startswith("ddprun-relay")}
        found = {}
        for pid in relays:
            parent = table[pid][0]
            while parent in table and parent != root and parent not in relays:
                parent = table[parent][0]
            if parent == root or parent in relays:
                found[pid] = parent
        return {pid: parent for pid, parent in found.items() if self.is_ours(pid)}

    def is_ours(self, pid):
        return pid in processes_of_job(self.marker)

    def wait_until(self, condition, what):
        deadline = time.monotonic() + support.HANG_GUARD
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.01)  # What other processes do is no event for us.


class Start(StartTest):
    def test_three_hosts_run_one_job(self):
        code, out, err = self.run_start(
            "--hosts", "a:2,b,c:1", "bash", "-c",
            "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE on $GROUP_RANK: $HOSTNAME $SSH_CONNECTION $PWD")
        self.assertEqual((code, err), (0, ""))
        here = os.getcwd()
        self.assertEqual(sorted(out.splitlines()), [
            f"0 of 4, 0 of 2 on 0: a from a {here}", f"1 of 4, 1 of 2 on 0: a from a {here}",
            f"2 of 4, 0 of 1 on 1: b from b {here}", f"3 of 4, 0 of 1 on 2: c from c {here}"])

    def test_this_machine_needs_no_remote_shell(self):
        code, out, err = self.run_job("--hosts", "localhost:2", "bash", "-c", "echo $RANK of $WORLD_SIZE")
        self.assertEqual((code, sorted(out.splitlines()), err), (0, ["0 of 2", "1 of 2"], ""))

    def test_the_environment_goes_along_but_for_what_is_the_hosts(self):
        carried = {"DDPRUN_CARRIED": "a b\n'c'", "DISPLAY": ":7", "SLURM_PROCID": "3", "SLURM_JOB_ID": "12"}
        script = ("import os; print([os.environ.get(name) for name in "
                  "('DDPRUN_CARRIED', 'DISPLAY', 'SLURM_PROCID', 'SLURM_JOB_ID', 'HOSTNAME', 'DDPRUN_SECRET')])")
        clean = self.script("clean", 'unset DISPLAY SLURM_PROCID; exec /bin/sh -c "$2"')
        code, out, err = self.run_start("--hosts", "a,b", "python3", "-c", script, rsh=clean, env=carried)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sorted(out.splitlines()), [
            f"[{carried['DDPRUN_CARRIED']!r}, None, None, '12', '{host}', None]" for host in "ab"])

    def test_a_tree_reaches_seven_hosts_by_two_at_a_time(self):
        job = self.start("--hosts", "n[1-7]", "--fan-out", "2", *worker("ready-then-wait"))
        job.wait_for_line("^ready$", count=7)
        relays = self.relays(job.pid)
        self.assertEqual(len(relays), 7)
        fan = sorted(list(relays.values()).count(parent) for parent in set(relays.values()))
        # Node 0 and two others; these have two each.
        self.assertEqual((fan, list(relays.values()).count(job.pid)), ([2, 2, 3], 3))
        job.send(signal.SIGTERM)
        self.assertEqual(job.wait(), 143)

    def test_a_failure_is_reported_once(self):
        code, _, err = self.run_start("--hosts", "a,b,c", *worker("--only-rank", "1", "exit", "7", "else", "ready-then-wait"))
        self.assertEqual((code, err.count("first failure: rank 1"), err.count("survivors")), (7, 1, 1), err)

    def test_a_report_does_not_stand_behind_what_another_host_has_begun(self):
        script = ("if [ $RANK = 1 ]; then head -c 300000 /dev/zero | tr '\\0' x; exec sleep 600; fi; "
                  f"until [ -e {self.path('go')} ]; do sleep 0.01; done; exit 3")
        job = subprocess.Popen([program("ddprun"), "--rsh", self.rsh, *HERE, "--hosts", "a,b", "sh", "-c", script],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                               env=self.environment)
        self.addCleanup(job.wait)
        with job.stdout:
            # A line that long comes in pieces.
            seen = job.stdout.read(200000)
            with open(self.path("go"), "w", encoding="ascii"):
                pass
            seen += job.stdout.read()
        self.assertRegex(seen.decode(), r"\Ax+\n(x+\n)?ddprun: sh failed; first failure: rank 0 ")

    def test_each_worker_gets_a_signal_once(self):
        job = self.start("--hosts", "a:2,b,c", "--forward", "USR1", *worker("print-signals"))
        job.wait_for_line("^ready$", count=4)
        job.send(signal.SIGUSR1)
        job.wait_for_line("^SIGUSR1$", count=4)
        job.send(signal.SIGINT)
        job.wait_for_line("^SIGINT$", count=4)
        job.interrupt_until_gone()
        self.assertEqual(job.wait(), 130)
        said = job.out().split()
        self.assertEqual((said.count("SIGUSR1"), said.count("SIGINT")), (4, 4), said)

    def test_a_control_c_that_comes_twice_costs_no_checkpoint(self):
        trap = f"trap 'echo saving; until [ -e {self.path('go')} ]; do sleep 0.01; done; echo saved; exit 0' INT; "
        for pause in (0.0005, 0.02, 0.2):
            job = self.start("--hosts", "a,b", "--grace", 3600, "bash", "-c", trap + "echo ready; while :; do sleep 0.01; done")
            job.wait_for_line("^ready$", count=2)
            job.send(signal.SIGINT)
            time.sleep(pause)  # no event: how far apart they are is what is tried
            job.send(signal.SIGINT)
            job.wait_for_line("^saving$", count=2)
            job.wait_until_idle()
            open(self.path("go"), "w", encoding="ascii").close()
            self.assertEqual((job.wait(), job.out().count("saved")), (75, 2), job.err())
            self.assertEqual([line for line in job.seen["err"] if "stopping" in line],
                             ["ddprun: stopping 2 ranks by SIGINT, up to 3600 s (--grace); Ctrl-C again in a second or later "
                              "ends it now"])
            os.unlink(self.path("go"))

    def test_control_c_ends_a_job_that_goes_on_without_some_nodes(self):
        job = self.start("--hosts", "n[1-3]", "--nnodes", "1:3", *worker("ready-then-wait"))
        job.wait_for_line("^ready$", count=3)
        job.send(signal.SIGINT)
        self.assertEqual(job.wait(), 130)

    def test_control_c_leaves_nothing(self):
        job = self.start("--hosts", "n[1-5]", "--fan-out", "2", *worker("setsid-grandchild", "ready-then-wait"))
        job.wait_for_line("^ready$", count=5)
        job.send(signal.SIGINT)
        self.assertEqual(job.wait(), 130)

    def test_what_workers_print_at_once_is_whole_lines(self):
        line = "x" * 5000
        code, out, err = self.run_start("--hosts", "n[1-4]:2", "--fan-out", "2", "python3", "-c",
                                        f"for i in range(300): print('{line}', i, flush=True)")
        self.assertEqual((code, err), (0, ""))
        lines = out.splitlines()
        self.assertEqual(len(lines), 8 * 300)
        self.assertEqual({text.split()[0] for text in lines}, {line})

    def test_a_reader_that_waits_holds_the_workers_and_costs_no_memory(self):
        if os.environ.get("DDPRUN_SANITIZED"):
            self.skipTest("what a sanitizer holds is no measure of ddprun's memory")
        size = 192 * 1024 * 1024
        job = subprocess.Popen(
            [program("ddprun"), "--rsh", self.rsh, *HERE, "--hosts", "a,b", "python3", "-c",
             f"import sys\nfor i in range({size} >> 16): sys.stdout.write('x' * 65535 + '\\n')"],
            stdout=subprocess.PIPE, env=self.environment)
        self.assertEqual(job.stdout.read(65536).count(b"\n"), 1)
        # The pipes and what may wait in each process are full when nothing moves any more.
        self.wait_until(lambda: self.stands_still(job.pid), "the starter still reads")
        with open(f"/proc/{job.pid}/status", encoding="ascii") as status:
            memory = int(re.search(r"VmRSS:\s*(\d+)", status.read()).group(1))
        self.assertLess(memory, 96 * 1024)
        left = 0
        while more := job.stdout.read(1 << 20):
            left += len(more)
        job.stdout.close()
        self.assertEqual((job.wait(), left), (0, 2 * size - 65536))

    def stands_still(self, pid):
        def moved():
            with open(f"/proc/{pid}/io", encoding="ascii") as counters:
                return counters.read()
        before = moved()
        time.sleep(0.3)  # That nothing happens is no event.
        return moved() == before


class StartEnds(StartTest):
    def test_a_killed_starter_leaves_nothing(self):
        job = self.start("--hosts", "n[1-7]", "--fan-out", "2", *worker("setsid-grandchild", "ready-then-wait"))
        job.wait_for_line("^ready$", count=7)
        job.send(signal.SIGKILL)
        self.assertEqual(job.wait(), -9)
        self.wait_until(lambda: not processes_of_job(self.marker), "something is left")

    def test_a_killed_starter_of_an_elastic_job_leaves_nothing(self):
        job = self.start("--hosts", "n[1-3]", "--nnodes", "1:3", *worker("ready-then-wait"))
        job.wait_for_line("^ready$", count=3)
        job.send(signal.SIGKILL)
        self.assertEqual(job.wait(), -9)
        self.wait_until(lambda: not processes_of_job(self.marker), "something is left")

    def test_a_starter_that_is_killed_while_it_starts_leaves_nothing(self):
        rsh = self.script("slow", '[ "$1" != c ] || exec sleep 1000\nexec /bin/sh -c "$2"')
        for number in (signal.SIGKILL, signal.SIGTERM):
            job = self.start("--hosts", "a,b,c", *worker("ready-then-wait"), rsh=rsh)
            # Two agents wait for the third one.
            job.wait_for_line("joined 2/3")
            job.send(number)
            self.assertEqual(job.wait(), -9 if number == signal.SIGKILL else 143)
            self.wait_until(lambda: not processes_of_job(self.marker), "something is left")

    def test_a_killed_inner_relay_takes_nothing_but_its_output(self):
        go = self.path("go")
        job = self.start("--hosts", "n[1-7]", "--fan-out", "2", *worker("say", "here", "wait-for-file", go, "say", "done"))
        job.wait_for_line("^here$", count=7)
        relays = self.relays(job.pid)
        inner = next(pid for pid, parent in relays.items() if parent == job.pid and pid in relays.values())
        os.kill(inner, signal.SIGKILL)
        job.wait_for_line("ddprun: n[0-9]: rsh .*what its agent says is not shown any more, nor that of 2 hosts")
        with open(go, "w", encoding="ascii"):
            pass
        self.assertEqual((job.wait(), job.out().count("done")), (0, 4), job.err())

    def test_a_connection_to_node_0_that_breaks_ends_the_job(self):
        job = self.start("--hosts", "a,b", *worker("ready-then-wait"))
        job.wait_for_line("^ready$", count=2)
        node_0 = next(pid for pid in self.relays(job.pid) if self.variable(pid, "HOSTNAME") == "a")
        os.kill(node_0, signal.SIGKILL)
        self.assertNotEqual(job.wait(), 0)
        self.assertIn("ddprun: a: rsh ", job.err())

    def variable(self, pid, name):
        with open(f"/proc/{pid}/environ", "rb") as environ:
            found = dict(entry.split(b"=", 1) for entry in environ.read().split(b"\0") if b"=" in entry)
        return found.get(name.encode(), b"").decode()

    def test_hosts_that_cannot_be_started_end_the_job_and_are_named(self):
        rsh = self.script("broken", 'case $1 in b|d) echo "ssh: connect to host $1 port 22: Connection refused" >&2; '
                          'exit 255;; esac\nexec /bin/sh -c "$2"')
        code, out, err = self.run_start("--hosts", "a,b,c,d", *worker("say", "never"), rsh=rsh)
        self.assertEqual((code, out), (71, ""), err)
        for host in "bd":
            self.assertIn(f"ddprun: {host}: broken exit 255: ssh: connect to host {host} port 22: Connection refused "
                          "(3 connections tried)\n", err + "\n")
        self.assertEqual(err.splitlines()[-1], "ddprun: 2 of 4 hosts could not be started, so the job is not run")

    def test_a_job_that_needs_fewer_nodes_begins_without_a_host(self):
        rsh = self.script("broken", '[ "$1" != c ] || { echo no >&2; exit 1; }\nexec /bin/sh -c "$2"')
        code, out, err = self.run_start("--hosts", "a,b,c", "--nnodes", "2:3", "--last-call", "0",
                                        *worker("print-place"), rsh=rsh)
        self.assertEqual((code, sorted(line.split(",")[0] for line in out.splitlines())),
                         (0, ["place 0 of 2 nodes", "place 1 of 2 nodes"]), err)
        self.assertIn("ddprun: c: broken exit 1: no", err)

    def test_a_host_that_lets_nobody_in_is_not_asked_again(self):
        rsh = self.script("locked", 'echo "alice@b: Permission denied (publickey)." >&2; exit 255')
        code, _, err = self.run_start("--hosts", "b", *worker("say", "never"), rsh=rsh)
        self.assertEqual(code, 71)
        self.assertRegex(err, r"b: locked exit 255: alice@b: Permission denied \(publickey\)\. \(.*BatchMode")
        self.assertNotIn("connections tried", err)

    def test_an_agent_that_cannot_run_its_worker_ends_the_job(self):
        code, _, err = self.run_start("--hosts", "a,b", "--program", "1:/nowhere/program", *worker("ready-then-wait"))
        self.assertEqual(code, 127, err)

    def test_a_host_without_the_folder_says_so(self):
        gone = self.path("gone")
        os.mkdir(gone)
        slow = self.script("slow", f'[ "$1" != b ] || rmdir {gone}\nexec /bin/sh -c "$2"')
        code, _, err = self.run_start("--hosts", "b", *worker("say", "never"), rsh=slow, cwd=gone)
        self.assertEqual(code, 71, err)
        self.assertIn(f"b: no working directory {gone} there", err)


class StartTroubles(StartTest):
    HOSTS = ("--hosts", "a.invalid:1,b.invalid:1")  # Names that the remote shell alone knows.

    def test_a_host_that_cannot_reach_node_0_says_why(self):
        job = self.launch("--rsh", self.rsh, *self.HOSTS, *worker("say", "never"))
        job.wait_for_line(r"^ddprun: b\.invalid: waiting for node 0: cannot resolve a\.invalid: .*; \d+ s of at most")
        job.send(signal.SIGTERM)
        self.assertEqual(job.wait(), 143)
        self.assertEqual((job.out(), job.err_and_waiting().count("waiting for node 0")), ("", 1), job.err())

    def test_it_says_nothing_if_the_user_wants_no_word(self):
        job = self.launch("--rsh", self.rsh, "--quiet", "--join-timeout", "4", *self.HOSTS, *worker("say", "never"))
        self.assertEqual((job.wait(), job.err_and_waiting().count("waiting for node 0")), (69, 0), job.err())


class StartChecks(StartTest):
    def test_a_host_that_is_not_fit_ends_the_job_before_it_begins(self):
        rsh = self.script("unfit", '[ "$1" != b ] || export TMPDIR=/proc/none\nexec /bin/sh -c "$2"')
        code, out, err = self.run_start("--check", "--hosts", "a,b", "--no-ship", *worker("say", "never"), rsh=rsh)
        self.assertEqual((code, out), (71, ""), err)
        self.assertRegex(err, r"(?m)^ddprun: b: --check: .*/proc/none")

    def test_hosts_that_are_fit_run_the_job(self):
        code, out, err = self.run_start("--check", "--hosts", "a,b", *worker("say", "here"))
        self.assertEqual((code, out, err), (0, "here\nhere", ""))


class StartShips(StartTest):
    def elsewhere(self, file):
        """A remote shell to hosts where another file stands at the launcher's place."""
        launcher = os.path.realpath(program("ddprun"))
        return self.script("elsewhere", f"""exec env PATH=/usr/bin:/bin /bin/sh -c "$(printf %s "$2" | sed 's|{launcher}|{file}|')" """)

    def test_the_program_is_brought_to_hosts_that_lack_it(self):
        for other in ("/nowhere/ddprun", self.script("other", "echo another build >&2; exit 2")):
            job = self.start("--hosts", "n[1-4]:1", "--fan-out", "2", *worker("ready-then-wait"), rsh=self.elsewhere(other))
            job.wait_for_line("^ready$", count=4)
            self.assertEqual([name for name in os.listdir(self.folder) if "relay" in name], [])
            job.send(signal.SIGTERM)
            self.assertEqual((job.wait(), [line for line in job.err().splitlines() if "another" in line]), (143, []))

    def test_it_is_not_if_the_user_says_so(self):
        code, _, err = self.run_start("--hosts", "a", "--no-ship", *worker("say", "never"), rsh=self.elsewhere("/nowhere/ddprun"))
        self.assertEqual(code, 71)
        self.assertRegex(err, "a: no ddprun of this build there .* --no-ship")

    def test_a_transfer_that_breaks_off_leaves_nothing(self):
        launcher = os.path.realpath(program("ddprun"))
        rsh = self.script("cut", f"""line=$(printf %s "$2" | sed 's|{launcher}|/nowhere/ddprun|')
head -c 100000 | env PATH=/usr/bin:/bin /bin/sh -c "$line" """)
        code, _, err = self.run_start("--hosts", "a", *worker("say", "never"), rsh=rsh)
        self.assertEqual(code, 71, err)
        self.assertEqual([name for name in os.listdir(self.folder) if "relay" in name], [])

    @unittest.skipUnless(os.geteuid() == 0, "skipped: only root mounts")
    def test_it_goes_where_it_may_be_executed(self):
        launcher, closed = os.path.realpath(program("ddprun")), self.path("closed")
        os.mkdir(closed)
        for home, told in ((self.folder, "^$"), (closed, rf"no place for the launcher: TMPDIR \({closed}\), .*noexec; set TMPDIR there")):
            line = f"""for d in {closed} /var/tmp; do mount -t tmpfs -o noexec none $d; done; export TMPDIR={closed} HOME={home}; exec sh -c "$1" """
            rsh = self.script("noexec", f"""exec unshare --mount sh -c '{line}' sh "$(printf %s "$2" | sed 's|{launcher}|/nowhere|')" """)
            code, out, err = self.run_start("--hosts", "a", *worker("say", "here"), rsh=rsh)
            self.assertEqual((code, out), (0, "here") if home == self.folder else (71, ""), err)
            self.assertRegex(err, told)

    def test_noise_of_a_shell_is_passed_over(self):
        rsh = self.script("noisy", 'printf "Welcome to $1"; echo "a warning" >&2; exec /bin/sh -c "$2"')
        code, out, err = self.run_start("--hosts", "a,b", *worker("say", "here"), rsh=rsh)
        self.assertEqual((code, out, err), (0, "here\nhere", ""))


class StartSecret(StartTest):
    def test_the_key_stands_in_no_command_line_and_no_environment(self):
        job = self.start("--hosts", "n[1-5]", "--fan-out", "2", "--store", "door", *worker("ready-then-wait"))
        job.wait_for_line("^ready$", count=5)
        key = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
        looked_at = 0
        for pid in processes_of_job(self.marker):
            with open(f"/proc/{pid}/cmdline", "rb") as words, open(f"/proc/{pid}/environ", "rb") as environ:
                self.assertIsNone(key.search(words.read()), pid)
                variables = environ.read()
            # What held it is wiped.
            self.assertIsNone(re.search(rb"DDPRUN_SECRET=[^\0]", variables), pid)
            looked_at += 1
        self.assertGreater(looked_at, 15)
        job.send(signal.SIGTERM)
        self.assertEqual(job.wait(), 143)


if __name__ == "__main__":
    support.main()
