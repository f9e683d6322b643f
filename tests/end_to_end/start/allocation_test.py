"""ddprun in an allocation of several hosts: one of it starts the agents of all, by programs that stand for a scheduler's own."""

import json
import os
import re
import signal
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from start_test import HERE, StartTest
from support import processes_of_job, worker

OWN = socket.gethostname()
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


class AllocationTest(StartTest):
    def setUp(self):
        super().setUp()
        self.environment["PATH"] = self.folder + ":" + self.environment["PATH"]

    def starter(self, name, first, more=""):
        """A scheduler's program: the host is its argument number `first`, the line is the next, and the last one."""
        self.script(f"{name}.on", 'exec /bin/sh -c "$2"')
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(f"""#!/bin/sh
call=
for word in "$@"; do case $word in exec*) word=LINE;; esac; call="$call $word"; done
echo "$call" >>{self.path(name + ".calls")}
{more}
exec {self.path(name + ".on")} "${{{first}}}" "${{{first + 1}}}"
""")
        os.chmod(self.path(name), 0o700)

    def calls(self, name):
        if not os.path.exists(self.path(name + ".calls")):
            return []
        with open(self.path(name + ".calls"), encoding="utf-8") as file:
            return sorted(line.strip() for line in file)

    def listed(self, name, lines):
        with open(self.path(name), "w", encoding="ascii") as file:
            file.write("".join(line + "\n" for line in lines))
        return self.path(name)

    def lsf(self, hosts=f"{OWN} 1 h2 2 h3 1"):
        return {"LSB_JOBID": "9", "LSB_MCPU_HOSTS": hosts}

    def pbs(self, *hosts):
        return {"PBS_JOBID": "77.server", "PBS_NODEFILE": self.listed("nodes", hosts)}


class Allocation(AllocationTest):
    SHOW = ("bash", "-c", 'echo "$RANK of $WORLD_SIZE on $HOSTNAME, $TORCHELASTIC_RUN_ID"')

    def test_lsf_starts_by_blaunch(self):
        self.starter("blaunch", 1)
        code, out, err = self.run_job(*HERE, *self.SHOW, env={**self.lsf(), **NO_GPU, "HOSTNAME": OWN})
        self.assertEqual(code, 0, err)
        self.assertEqual(sorted(out.splitlines()), [f"0 of 4 on {OWN}, lsf-9", "1 of 4 on h2, lsf-9", "2 of 4 on h2, lsf-9", "3 of 4 on h3, lsf-9"])
        self.assertIn("ddprun: 3 nodes by LSB_MCPU_HOSTS, agents started by blaunch", err.splitlines())
        self.assertEqual(self.calls("blaunch"), ["h2 LINE", "h3 LINE"])

    def test_sge_starts_by_qrsh(self):
        self.starter("qrsh", 2)
        sge = {"SGE_ROOT": "/opt/sge", "ARC": "lx-amd64", "JOB_ID": "31",
               "PE_HOSTFILE": self.listed("hosts", ["h1.example 1 all.q@h1 UNDEFINED", f"{OWN} 1 all.q@own UNDEFINED"])}
        code, out, err = self.run_job(*HERE, "--nproc-per-node", "1", *self.SHOW, env={**sge, "HOSTNAME": OWN})
        self.assertEqual((code, sorted(out.splitlines())), (0, ["0 of 2 on h1.example, sge-31", f"1 of 2 on {OWN}, sge-31"]), err)
        self.assertEqual(err, "ddprun: 2 nodes by PE_HOSTFILE, agents started by qrsh")
        self.assertEqual(self.calls("qrsh"), ["-inherit h1.example LINE"])

    def test_pbs_starts_by_ssh(self):
        # Behind its own options, and their end, come the host and the line.
        self.starter("ssh", 12)
        code, out, err = self.run_job(*HERE, *self.SHOW, env={**self.pbs(OWN, OWN, "h2", "h2"), **NO_GPU, "HOSTNAME": OWN})
        self.assertEqual((code, sorted(line.split(",")[0] for line in out.splitlines())),
                         (0, [f"0 of 4 on {OWN}", f"1 of 4 on {OWN}", "2 of 4 on h2", "3 of 4 on h2"]), err)
        self.assertIn("ddprun: 2 nodes by PBS_NODEFILE, agents started by ssh", err.splitlines())
        self.assertEqual([call.split()[-3:] for call in self.calls("ssh")], [["--", "h2", "LINE"]])
        self.assertIn("BatchMode=yes", self.calls("ssh")[0])

    def test_gpus_of_a_host_are_those_that_its_scheduler_names_there(self):
        self.starter("blaunch", 1, "export CUDA_VISIBLE_DEVICES=6,7")
        code, out, err = self.run_job(*HERE, "bash", "-c", "echo $RANK: $CUDA_VISIBLE_DEVICES",
                                      env={**self.lsf(f"{OWN} 8 h2 8"), "CUDA_VISIBLE_DEVICES": "4"})
        self.assertEqual((code, sorted(out.splitlines())), (0, ["0: 4", "1: 6,7", "2: 6,7"]), err)

    def test_another_command_reaches_the_hosts(self):
        self.starter("mine", 2)
        code, out, err = self.run_job(*HERE, "--rsh", self.path("mine") + " -x{host} {host} {line}", "--nproc-per-node", "1", *self.SHOW,
                                      env=self.lsf(f"{OWN} 1 h2 1"))
        self.assertEqual((code, len(out.splitlines())), (0, 2), err)
        self.assertEqual(err, "ddprun: 2 nodes by LSB_MCPU_HOSTS, agents started by mine")
        # A command that the user names reaches this machine, too.
        self.assertEqual(self.calls("mine"), sorted([f"-x{OWN} {OWN} LINE", "-xh2 h2 LINE"]))

    def test_control_c_leaves_nothing(self):
        self.starter("blaunch", 1)
        job = self.launch(*HERE, "--nproc-per-node", "1", *worker("setsid-grandchild", "ready-then-wait"), env=self.lsf())
        job.wait_for_line("^ready$", count=3)
        job.send(signal.SIGINT)
        self.assertEqual(job.wait(), 130)
        self.wait_until(lambda: not processes_of_job(self.marker), "something is left")

    def test_a_host_that_cannot_be_reached_is_named(self):
        self.starter("blaunch", 1, '[ "$1" != h3 ] || { echo "h3: LSF is down" >&2; exit 3; }')
        code, out, err = self.run_job(*HERE, "--nproc-per-node", "1", *worker("say", "never"), env=self.lsf())
        self.assertEqual((code, out), (71, ""), err)
        self.assertIn("ddprun: h3: blaunch exit 3: h3: LSF is down", err.splitlines())


class AllocationShown(AllocationTest):
    """--explain and --dry-run connect to nothing: not even blaunch is called."""

    WORDS = ("train", "x y")

    def setUp(self):
        super().setUp()
        self.starter("blaunch", 1, "exit 9")

    def tearDown(self):
        self.assertEqual(self.calls("blaunch"), [])

    def test_the_lines(self):
        env = self.lsf(f"{OWN} 4 h2 2")
        code, out, err = self.run_job("--dry-run", *self.WORDS, env=env)
        agents = [f"node 0 on {OWN} (here), a worker for each GPU, or 4 without: ddprun --rdzv-id=lsf-9 --nnodes=2 "
                  f"--node-rank=0 --master-addr={OWN} -- train x y",
                  "node 1 on h2, a worker for each GPU, or 2 without: ddprun --rdzv-id=lsf-9 --nnodes=2 --node-rank=1 "
                  f"--master-addr={OWN} -- train x y"]
        self.assertEqual((code, out.splitlines(), err), (0, agents, "ddprun: 2 nodes by LSB_MCPU_HOSTS, agents started by blaunch"))
        code, out, err = self.run_job("--explain", *self.WORDS, env=env)
        self.assertEqual((code, err), (0, ""))
        for line in ("  agents: started from here, by blaunch", "The start", "  2 nodes by LSB_MCPU_HOSTS, agents started by blaunch",
                     "  other hosts: blaunch HOST LINE", *("  " + line for line in agents)):
            self.assertIn(line, out.splitlines())

    def test_as_many_nodes_as_the_allocation_has_may_be_said(self):
        for said in ("2", "1:2"):
            code, out, err = self.run_job("--dry-run", f"--nnodes={said}", *self.WORDS, env=self.lsf(f"{OWN} 4 h2 2"))
            self.assertEqual((code, err), (0, "ddprun: 2 nodes by LSB_MCPU_HOSTS, agents started by blaunch"))
            self.assertEqual(re.findall(r"--rdzv-id=lsf-9 (--nnodes=\S+ --node-rank=\d)", out),
                             [f"--nnodes={said} --node-rank={node}" for node in range(2)])

    def test_the_json(self):
        env = self.lsf(f"{OWN} 4 h2 2")
        code, out, err = self.run_job("--explain", "--json", "--nproc-per-node=3", *self.WORDS, env=env)
        self.assertEqual((code, err), (0, ""))
        plan = json.loads(out)
        start = plan["start"]
        self.assertEqual((start["decided"], start["shell"], plan["workers"], plan["refused"]),
                         ("2 nodes by LSB_MCPU_HOSTS, agents started by blaunch", ["blaunch", "HOST", "LINE"], [], None))
        self.assertEqual([(one["node"], one["host"], one["here"], one["workers"], one["slots"]) for one in start["agents"]],
                         [(0, OWN, True, None, None), (1, "h2", False, None, None)])
        self.assertEqual(start["agents"][1]["command"][-3:], ["--", *self.WORDS])
        code, out, _ = self.run_job("--dry-run", "--json", *self.WORDS, env=env)
        self.assertEqual((code, [one["slots"] for one in json.loads(out)]), (0, [4, 2]))

    def test_hosts_that_are_named(self):
        # What is around does not count then.
        code, out, err = self.run_job("--explain", "--json", "--hosts", "a:2,b", *self.WORDS, env=self.pbs("h1", "h2"))
        self.assertEqual((code, err), (0, ""))
        plan = json.loads(out)
        self.assertEqual((plan["cluster"]["family"], plan["start"]["decided"], [one["workers"] for one in plan["start"]["agents"]]),
                         (None, None, [2, None]))
        self.assertEqual(plan["start"]["shell"][0], "ssh")


class AllocationRefused(AllocationTest):
    def refused(self, *arguments, env):
        code, out, err = self.run_job(*arguments, *worker("say", "never"), env=env)
        self.assertEqual((code, out, len(err.splitlines())), (2, "", 1), err)
        return err

    def test_a_machine_that_is_none_of_the_hosts_starts_nothing(self):
        self.assertIn("this is one process in a PBS job of 2 nodes (PBS_NODEFILE), and nobody has started ddprun on the others",
                      self.refused(env=self.pbs("h1", "h2")))

    def test_a_name_that_is_none_reaches_no_other_program(self):
        for name in ("blaunch", "ssh", "qrsh", "srun", "oarsh"):
            self.starter(name, 1)
        for bad in ("-oProxyCommand=touch${IFS}x", "$(id)", "a;b", "a/b"):
            hosts = [OWN, bad]
            cases = ({"SLURM_JOB_ID": "5", "SLURM_JOB_NODELIST": ",".join(hosts), "SLURM_JOB_NUM_NODES": "2", "SLURMD_NODENAME": OWN},
                     self.lsf(f"{OWN} 1 {bad} 1"), self.pbs(*hosts), {"OAR_JOB_ID": "4", "OAR_NODEFILE": self.listed("oar", hosts)},
                     {"SGE_ROOT": "/opt/sge", "ARC": "lx-amd64", "JOB_ID": "31", "PE_HOSTFILE": self.listed("sge", [f"{host} 1 q@h -" for host in hosts])})
            for env in cases:
                for words in ((), ("--rsh", "ssh"), ("--explain",), ("--dry-run",)):
                    with self.subTest(bad=bad, env=env, words=words):
                        code, out, err = self.run_job(*HERE, *words, *worker("say", "never"), env=env)
                        self.assertEqual((code, "no name of a host" in out + err), (2, True), out + err)
                        self.assertNotIn("--master-addr=" + bad, out)
        for name in ("blaunch", "ssh", "qrsh", "srun", "oarsh"):
            self.assertEqual(self.calls(name), [])

    def test_what_cannot_be_said_where_hosts_are_started(self):
        for words, text in ((("--detach",), "--detach: contradicts the start on all hosts of LSB_MCPU_HOSTS: "),
                            (("--rdzv-endpoint", "h2:7"), "--rdzv-endpoint: contradicts the start on all hosts of LSB_MCPU_HOSTS: "),
                            (("--exclude", "h9"), "--exclude h9: 'h9' is none of the hosts"),
                            (("--rdzv-backend", "c10d", "--rdzv-endpoint", "h2:7"), "this is one process in an LSF job of 3 nodes"),
                            (("--adapt",), "this is one process in an LSF job of 3 nodes")):
            with self.subTest(words=words):
                self.assertIn(text, self.refused(*words, env=self.lsf()))

    def test_a_starter_without_standard_input(self):
        self.assertIn("--rsh pbsdsh: pbsdsh gives what it starts no standard input, by which the job's key comes; take ssh",
                      self.refused("--rsh", "pbsdsh", env=self.pbs(OWN, "h2")))

    def test_one_node_where_the_user_says_so(self):
        for words in (("--standalone",), ("--nnodes=1",), ("--scheduler=none",)):
            self.assertEqual(self.run_job(*words, "--nproc-per-node=1", *worker("say", "x"), env=self.lsf()), (0, "x", ""))


if __name__ == "__main__":
    support.main()
