"""What a launch would be and was: --explain, --dry-run --json and run.json."""

import json
import os
import re
import socket
import stat
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support import EndToEndTest, free_port, main, run_folders, worker

USAGE = 2
STEP = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_NODEID": "1", "SLURM_PROCID": "1",
        "SLURM_LOCALID": "0", "SLURM_NNODES": "4"}
# Nobody could connect to the one, or create the other.
UNREACHABLE = ("--master-addr=192.0.2.1", "--log-dir=/proc/none", "--log-file=/proc/none", "--events=/proc/none",
               "--result-file=/proc/none")


class Explained(EndToEndTest):
    def explained(self, *arguments, env=None):
        code, out, err = self.run_job("--explain", *arguments, env=env)
        self.assertEqual((code, err), (0, ""), out)
        return out

    def test_a_step_is_explained_and_nothing_is_started(self):
        words = (*UNREACHABLE, "--nproc-per-node=2", *worker("say", "started"))
        text = self.explained(*words, env=STEP | {"PET_NPROC_PER_NODE": "3", "DDPRUN_NPROC_PER_NODE": "4"})
        for line in ("  nodes: 2 by SLURM_STEP_NUM_NODES (a process launcher); not 4 by SLURM_NNODES (an allocation)",
                     "  --nproc-per-node 2 by the command line; not 4 by DDPRUN_NPROC_PER_NODE; not 3 by PET_NPROC_PER_NODE",
                     "  nodes: 2 (SLURM_STEP_NUM_NODES)", "  master address: 192.0.2.1 (--master-addr)",
                     "  master port: 29500 (default)", "  workers here: 2 (--nproc-per-node)", "  WORLD_SIZE: known when the nodes have met",
                     "  DDPRUN_NPROC_PER_NODE is taken out", "Local rank 1", "  LOCAL_RANK=1"):
            self.assertIn(line, text.splitlines(), text)
        self.assertNotIn("\nstarted", text)
        self.assertRegex(text, r"\n  on: any of CPUs? [\d,-]+, NUMA node")
        plan = json.loads(self.explained("--json", *words, env=STEP))
        self.assertEqual([value for value in plan["launch"] if value["name"] == "node"],
                         [{"name": "node", "value": "1", "source": "SLURM_NODEID"}])
        self.assertEqual([one["command"] for one in plan["workers"]], [worker("say", "started")] * 2)
        self.assertIsNone(plan["refused"])

    def test_a_start_on_several_hosts_shows_its_nodes_and_no_secret(self):
        words = ("--hosts", "a,b", "--env", "MY_TOKEN=hidden", "--env-rank", "0:API_KEY=hidden", "--master-addr", "m", "true")
        text = self.explained(*words)
        for line in ("  nodes: 2 by --hosts (the command line)", "  --env MY_TOKEN=(not shown) by the command line",
                     "  node 1 on b: ddprun --env=MY_TOKEN=(not shown) --env-rank=0:API_KEY=(not shown) --nnodes=2 --node-rank=1 "
                     "--master-addr=m -- true"):
            self.assertIn(line, text.splitlines(), text)
        for shown in (text, self.explained("--json", *words), self.explained("--json", *words[2:6], "true")):
            self.assertNotIn("hidden", shown)

    def test_what_workers_get_is_what_was_explained(self):
        """Each variable that is known before the start has the value that was said, and no other one has changed."""
        flags = ("--nproc-per-node=2", "--role=some", "--max-restarts=3", f"--master-port={free_port()}")
        inherited = {"DDPRUN_SHUTDOWN_TIMEOUT": "7", "WORLD_SIZE": "9", "PET_MAX_RESTARTS": "1"}
        plan = json.loads(self.explained("--json", *flags, *worker("print-env"), env=inherited))
        code, out, err = self.run_job("--show=1", *flags, "env", env=inherited)
        self.assertEqual((code, err), (0, ""))
        seen = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        before = {**self.environment, **inherited}
        changes = {one["name"]: one for one in plan["environment"] + plan["workers"][1]["environment"]}
        for name, change in changes.items():
            if change["value"] is not None:
                self.assertEqual(seen.get(name), change["value"], name)
            elif change["later"] is None:
                self.assertNotIn(name, seen)
        # What is not named is as it was inherited; a shell's own variables aside.
        for name in set(seen) | set(before):
            if name not in changes and re.fullmatch(r"[A-Z][A-Z0-9_]*", name) and "\n" not in before.get(name, ""):
                self.assertEqual(seen.get(name), before.get(name), name)
        self.assertEqual(seen["RANK"], "1")

    def test_a_refusal_follows_what_is_known(self):
        less = {name: value for name, value in STEP.items() if name != "SLURM_STEP_NODELIST"}
        for words, env, said, why in (
                ((), less, "nodes: 2 by SLURM_STEP_NUM_NODES", "SLURM_STEP_NODELIST is not set"),
                (("--nproc-per-node=gpu",), {"CUDA_VISIBLE_DEVICES": ""}, "--nproc-per-node gpu", "this node has no GPU")):
            for form in ((), ("--json",)):
                code, out, err = self.run_job("--explain", *form, *words, *worker("say", "started"), env=env)
                self.assertEqual((code, err.count("\n")), (USAGE, 0), err)
                self.assertRegex(err, rf"^ddprun: .*{why}")
                if form:
                    plan = json.loads(out)
                    self.assertEqual(f"ddprun: {plan['refused']}", err)
                    self.assertEqual(plan["workers"], [])
                else:
                    self.assertIn(said, out)
                    self.assertEqual(len(re.findall("refused: .*" + why, out)), 1, out)

    def test_a_task_that_is_adapted(self):
        tasks = STEP | {"SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_PROCID": "3",
                        "SLURM_LOCALID": "1"}
        text = self.explained("--adapt", "echo", "${local_rank}", env=tasks)
        for line in ("Rank 3", "  runs: echo 1", "  MASTER_ADDR=n1", "  LOCAL_WORLD_SIZE=2"):
            self.assertIn(line, text.splitlines(), text)
        # A name that is known later is the program's to wait for.
        code, out, err = self.run_job("--adapt", "--master-addr=late.invalid", "sh", "-c", "echo $RANK at $MASTER_ADDR", env=tasks)
        self.assertEqual((code, out, err), (0, "3 at late.invalid", ""))

    def test_the_map_as_json(self):
        code, out, err = self.run_job("--dry-run", "--json", "--nproc-per-node=2", "--bind=cores", "true")
        self.assertEqual((code, err), (0, ""))
        workers = json.loads(out)
        self.assertEqual([one["rank"] for one in workers], [0, 1])
        self.assertTrue(all(one["cpus"] and one["command"] == ["true"] for one in workers), out)
        code, _, err = self.run_job("--json", "true")
        self.assertEqual((code, err), (0, "ddprun: --json: passed over, it is for --explain and --dry-run"))


class Recorded(EndToEndTest):
    """What a run was started with, and started with again."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        self.logs = os.path.join(self.folder, "logs")

    def runs(self):
        """The folders of the runs, by name."""
        self.assertFalse(os.path.exists(os.path.join(self.logs, "run.json")))
        return run_folders(self.logs)

    def file(self):
        folder, = self.runs()
        return os.path.join(folder, "run.json")

    def record(self, folder):
        with open(os.path.join(folder, "run.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_what_a_run_was_started_with(self):
        words = ["--nproc-per-node=1", "--log-dir=logs", "--env", "ML_TOKEN=hidden", "sh", "-c", "exit 3", "--password", "hidden",
                 "postgres://ann:hidden@db/x", "a b"]
        secret = {"DDPRUN_SECRET": "hidden", "WANDB_API_KEY": "hidden", "JOB_DB_PASS": "hidden",
                  "DATABASE_URL": "postgres://ann:hidden@db", "SOME_NAME": "hidden"}
        code, _, err = self.run_job(*words, cwd=self.folder, env={"NCCL_DEBUG": "WARN", "PET_ROLE": "some", **secret})
        self.assertEqual(code, 3, err)
        self.assertEqual(stat.S_IMODE(os.stat(self.file()).st_mode), 0o600)
        with open(self.file(), encoding="utf-8") as file:
            text = file.read()
        self.assertNotIn("hidden", text)
        record = json.loads(text)
        self.assertEqual((record["words"][:3], record["words"][-1], record["directory"]), (words[:3], "a b", self.folder))
        self.assertEqual(record["words"].count("(not shown)"), 1)
        # The secret is taken out of the environment before anything reads that.
        self.assertLessEqual({*secret, "NCCL_DEBUG", "PET_ROLE", "PATH"} - {"DDPRUN_SECRET"}, set(record["variables"]))
        self.assertEqual(record["environment"].get("NCCL_DEBUG"), "WARN")
        self.assertNotIn("PATH", record["environment"])

    def test_a_plan_shows_no_secret(self):
        for words in (("--explain",), ("--explain", "--json"), ("--dry-run",), ("--dry-run", "--json")):
            code, out, err = self.run_job(*words, "--env", "ML_TOKEN=hidden", "sh", "-c", "true", "--api-key", "hidden",
                                          "redis://:hidden@h", env={"JOB_DB_PASS": "hidden"})
            self.assertEqual((code, "hidden" in out + err), (0, False), out)

    def test_nodes_that_share_a_folder_have_a_record_each(self):
        port = free_port()
        agents = [self.launch("--nnodes=2", f"--node-rank={rank}", "--master-addr=127.0.0.1", f"--master-port={port}",
                              "--nproc-per-node=1", "--log-dir", self.logs, *worker("exit", "0")) for rank in (0, 1)]
        self.assertEqual([agent.wait() for agent in agents], [0, 0])
        folders = self.runs()
        self.assertEqual([self.record(folder)["node_rank"] for folder in folders], [0, 1])
        self.assertEqual(len({self.record(folder)["job_id"] for folder in folders}), 1)
        for rank, folder in enumerate(folders):
            self.assertRegex(folder, f"/none_node{rank}_{socket.gethostname()}_[^_]*$")

    def test_nodes_that_get_their_numbers_later_have_them_in_their_folders(self):
        port = free_port()
        agents = [self.launch("--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", f"--rdzv-conf=is_host={host}",
                              "--nproc-per-node=1", "--log-dir", self.logs, *worker("exit", "0")) for host in (1, 0)]
        self.assertEqual([agent.wait() for agent in agents], [0, 0])
        self.assertEqual([re.search("_node([01])_", folder)[1] for folder in self.runs()], ["0", "1"])
        self.assertEqual([self.record(folder)["node_rank"] for folder in self.runs()], [0, 1])

    def test_without_a_folder_there_is_no_record(self):
        self.assertEqual(self.run_job("--log-dir=/dev/null", *worker("exit", "0"), cwd=self.folder)[0], 0)
        self.assertEqual(self.run_job(*worker("exit", "0"), cwd=self.folder)[0], 0)
        self.assertEqual(self.run_job("--dry-run", "--log-dir", self.logs, "true")[0], 0)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    main()
