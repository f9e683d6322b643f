"""What a launch would be and was: --explain, --dry-run --json, run.json and `ddpctl rerun`."""

import json
import os
import re
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support import HANG_GUARD, EndToEndTest, free_port, main, program, run_folders, worker

USAGE = 2
REFUSED = 71
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

    def rerun(self, *words, env=None):
        done = subprocess.run([program("ddpctl"), "rerun", *words], env={**self.environment, **(env or {})}, cwd="/", text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=HANG_GUARD, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_a_run_is_started_again(self):
        say = 'echo "$RANK $PWD $* $PET_ROLE-$ROLE_NAME $MY_OWN"; exit 3'
        words = ["--nproc-per-node=1", "--log-dir=logs", "sh", "-c", say, "it's", "a b"]
        env = {"PET_ROLE": "some", "SLURM_JOB_ID": "5", "DDPRUN_SECRET": "hidden", "WANDB_API_KEY": "hidden",
               "SLURM_SOME_TOKEN": "hidden"}
        code, out, _ = self.run_job(*words, cwd=self.folder, env=env)
        self.assertEqual((code, out), (3, f"0 {self.folder} a b some-some "))
        self.assertEqual(stat.S_IMODE(os.stat(self.file()).st_mode), 0o600)
        folder, = self.runs()
        record = self.record(folder)
        with open(self.file(), encoding="utf-8") as file:
            self.assertNotIn("hidden", file.read())
        self.assertEqual((record["words"], record["directory"]), (words, self.folder))
        secrets = {"DDPRUN_SECRET", "WANDB_API_KEY", "SLURM_SOME_TOKEN"}
        kept = record["environment"]
        self.assertEqual((kept["PET_ROLE"], kept["SLURM_JOB_ID"], kept["PATH"]), ("some", "5", self.environment["PATH"]))
        self.assertEqual(secrets & set(kept), set())
        self.assertIs(record["is_exact"], True)
        for count, named in enumerate((self.logs, folder, self.file()), start=2):
            code, out, err = self.rerun(named, env={"MY_OWN": "mine", "PET_ROLE": "other", "DDPRUN_QUIET": "1"})
            self.assertEqual((code, out), (3, f"0 {self.folder} a b some-some \n"), err)
            self.assertIn(f"ddpctl: cd {self.folder} && env -u DDPRUN_QUIET -u MY_OWN ", err)
            self.assertEqual("newest run" in err, named == self.logs)
            self.assertEqual(len(self.runs()), count)
        self.assertEqual(self.record(folder)["start_unix_ms"], record["start_unix_ms"])
        # For a shell it is one line.
        code, line, err = self.rerun("--dry-run", folder)
        self.assertEqual((code, err, line.count("\n")), (0, "", 1))
        self.assertEqual(shlex.split(line)[-len(words):], words)
        done = subprocess.run(["sh", "-c", line], env=self.environment, cwd="/", text=True, capture_output=True,
                              timeout=HANG_GUARD, check=False)
        self.assertEqual((done.returncode, done.stdout), (3, f"0 {self.folder} a b some-some \n"))

    def test_of_a_log_dir_the_newest_run_is_taken_and_named(self):
        for number in range(3):
            self.assertEqual(self.run_job("--log-dir", self.logs, *worker("say", str(number)))[0], 0)
        by_age = sorted(self.runs(), key=lambda folder: self.record(folder)["start_unix_ms"])
        self.assertEqual([self.record(folder)["words"][-1] for folder in by_age], ["0", "1", "2"])
        # What a version before has left there, another's folder and a spoiled record do not stand in the way.
        with open(os.path.join(by_age[1], "run.json"), encoding="utf-8") as file:
            old = json.load(file) | {"start_unix_ms": 1}
        with open(os.path.join(self.logs, "run.json"), "w", encoding="utf-8") as file:
            json.dump({name: value for name, value in old.items() if name != "job_id"}, file)
        os.makedirs(os.path.join(self.logs, "other", "run.json"))
        code, out, err = self.rerun("--dry-run", self.logs)
        self.assertEqual((code, shlex.split(out)[-1], err),
                         (0, "2", f"ddpctl: the newest run in {self.logs} is {os.path.basename(by_age[2])}\n"))
        os.unlink(os.path.join(by_age[2], "run.json"))
        self.assertEqual(shlex.split(self.rerun("--dry-run", self.logs)[1])[-1], "1")
        os.unlink(os.path.join(by_age[1], "run.json"))
        os.unlink(os.path.join(by_age[0], "run.json"))
        code, out, err = self.rerun("--dry-run", self.logs)
        self.assertEqual((code, shlex.split(out)[-1], err), (0, "1", ""))

    @unittest.skipUnless(os.geteuid() == 0, "not root, so nothing can be given to somebody else")
    def test_what_somebody_else_has_recorded_is_not_run(self):
        nobody = 65534
        for word in ("mine", "his"):
            self.assertEqual(self.run_job("--log-dir", self.logs, *worker("say", word))[0], 0)
        mine, his = sorted(self.runs(), key=lambda folder: self.record(folder)["start_unix_ms"])
        for given in (os.path.join(his, "run.json"), his):
            os.chown(given, nobody, nobody)
            self.assertEqual(shlex.split(self.rerun("--dry-run", self.logs)[1])[-1], "mine")
            code, out, err = self.rerun("--dry-run", his)
            self.assertEqual((code, out), (USAGE, ""))
            self.assertRegex(err, r"(belongs to another user \(uid 65534\)|no run of yours is recorded there)")
            os.chown(given, 0, 0)
        os.chown(os.path.join(his, "run.json"), nobody, nobody)
        os.unlink(os.path.join(mine, "run.json"))
        self.assertIn(f"rerun {self.logs}: no run of yours is recorded there", self.rerun(self.logs)[2])

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
        self.assertIn(os.path.basename(folders[0]), self.rerun("--dry-run", self.logs)[2])

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

    def test_what_cannot_be_run_again(self):
        code, _, _ = self.run_job("--log-dir", self.logs, "true", os.fsdecode(b"\xff"))
        self.assertEqual(code, 0)
        self.assertIn("byte for byte", self.rerun(self.logs)[2])
        shutil.rmtree(self.logs)
        self.assertEqual(self.run_job("--log-dir", self.logs, "true")[0], 0)
        folder, = self.runs()
        record = self.record(folder)
        for change, code, why in (({"directory": "/no/such/folder"}, USAGE, "/no/such/folder of the run cannot be entered"),
                                  ({"program": "/no/such/program"}, REFUSED, "/no/such/program cannot be executed"),
                                  ({"kind": "another's"}, USAGE, "no file that ddprun --log-dir has written")):
            with open(self.file(), "w", encoding="utf-8") as file:
                json.dump(record | change, file)
            for named in (folder, self.file()):
                ended, out, err = self.rerun(named)
                self.assertEqual((ended, out), (code, ""))
                self.assertRegex(err.splitlines()[-1], rf"^ddpctl: rerun.*{why}")
        os.unlink(self.file())
        for named in (self.logs, folder, "/no/such/file"):
            code, _, err = self.rerun(named)
            self.assertEqual((code, err.count("\n")), (USAGE, 1))
            self.assertIn("no run of yours is recorded there" if os.path.isdir(named) else "No such file", err)


if __name__ == "__main__":
    main()
