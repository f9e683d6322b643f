"""ddprun where srun, mpirun or a batch system has started it, as their variables tell."""

import os
import shutil
import socket
import subprocess
import tempfile
import unittest

import support
from support import EndToEndTest, free_port, program, worker

MPI_PROGRAM = """
#include <mpi.h>
#include <cstdio>
int main(int count, char** words) {
    MPI_Init(&count, &words);
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::printf("size=%d\\n", size);
    MPI_Finalize();
}
"""

STEP = {"SLURM_NNODES": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2", "SLURM_PROCID": "1",
        "SLURM_NODEID": "1"}
BARE = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29600", "RANK": "0", "WORLD_SIZE": "2"}
BATCH = {"SLURM_JOB_ID": "77", "SLURM_NNODES": "2", "SLURM_NTASKS": "2", "SLURM_PROCID": "0", "SLURM_NODEID": "0"}


def task(number, job="77", **more):
    """A task of `srun -N2 --ntasks-per-node=1`; its nodes meet on this machine."""
    return {"SLURM_JOB_ID": job, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2",
            "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_NODELIST": "localhost,other", "SLURM_NODEID": str(number),
            "SLURM_PROCID": str(number), "SLURM_LOCALID": "0"} | more


class Steps(EndToEndTest):
    """A job of two nodes without a word about nodes."""

    def step(self, *arguments, job="77", **more):
        agents = [self.launch(*arguments, env=task(number, job, **more)) for number in (1, 0)]
        return [(agent.wait(), agent.out(), agent.err()) for agent in reversed(agents)]

    def test_the_tasks_of_a_step_are_one_job(self):
        # A run of this test has a job of its own, and with it a port.
        job = str(os.getpid())
        for restart in ("0", "1"):
            ended = self.step("--nproc-per-node=2", *worker("print-env"), job=job, SLURM_RESTART_COUNT=restart)
            for number, (code, out, err) in enumerate(ended):
                self.assertEqual(code, 0, err)
                lines = out.splitlines()
                self.assertEqual({line for line in lines if line.startswith("RANK=")},
                                 {f"RANK={2 * number}", f"RANK={2 * number + 1}"})
                for line in ("WORLD_SIZE=4", f"GROUP_RANK={number}", "MASTER_ADDR=localhost",
                             f"TORCHELASTIC_RUN_ID=slurm-{job}.0-r{restart}"):
                    self.assertEqual(lines.count(line), 2, line)
            # One screen shows what both say.
            self.assertRegex(ended[0][2], r"^ddprun: 2 nodes by SLURM_STEP_NUM_NODES, this is node 0 by SLURM_NODEID, "
                                          r"they meet at localhost:2\d{4} by SLURM_STEP_NODELIST$")
            self.assertEqual(ended[1][2], "")

    def test_a_port_that_is_taken_is_no_obstacle(self):
        job = f"{os.getpid()}7"
        code, _, err = self.run_job("--nproc-per-node=1", "--dry-run", "true", env=task(0, job))
        self.assertEqual(code, 0, err)
        port = int(err.split("localhost:")[1].split()[0])
        with socket.socket() as other:
            other.bind(("", port))
            other.listen()
            for code, out, err in self.step("--nproc-per-node=1", *worker("print-env"), job=job):
                self.assertEqual(code, 0, err)
                self.assertIn(f"MASTER_PORT={port + 1}\n", out)

    def test_what_is_said_is_stronger(self):
        port = free_port()
        flags = ["--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={port}", "--rdzv-id=mine"]
        for code, out, err in self.step(*flags, *worker("print-env")):
            self.assertEqual(code, 0, err)
            for line in (f"MASTER_PORT={port}\n", "MASTER_ADDR=127.0.0.1\n", "TORCHELASTIC_RUN_ID=mine\n"):
                self.assertIn(line, out)

    def test_a_worker_for_each_gpu_or_one_and_a_line(self):
        one = {"SLURM_JOB_ID": "7", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "1"}
        code, out, err = self.run_job(*worker("say", "x"), env=one | {"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual((code, out), (0, "x"), err)
        self.assertIn("--nproc-per-node", err)
        for flags in (["--nproc-per-node=1"], ["--scheduler=none"], ["--standalone"], ["--like-torchrun", "--no-python"]):
            self.assertEqual(self.run_job(*flags, *worker("say", "x"), env=one), (0, "x", ""))
        ended = self.run_job(*worker("say", "x"), env=one | {"CUDA_VISIBLE_DEVICES": "4,5"})
        self.assertEqual(ended, (0, "x\nx", ""))


class Refusals(EndToEndTest):
    def test_several_tasks_that_no_job_can_be_made_of_are_no_jobs_of_one(self):
        tasks = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "1", "SLURM_PROCID": "3"}
        for environment, words in (
                (STEP, ["SLURM_STEP_NODELIST is not set", "--master-addr"]),
                (tasks, ["task 3 of 4 of a Slurm step (SLURM_STEP_NUM_TASKS=4)", "--nproc-per-node=4", "--adapt",
                         "--standalone"]),
                ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
                 ["OMPI_COMM_WORLD_SIZE=2", "--nproc-per-node=2", "--standalone"]),
                ({"PMI_SIZE": "3"}, ["PMI_SIZE=3", "--standalone"]),
                (BATCH, ["2 nodes (SLURM_NNODES)", "srun --ntasks-per-node=1 ddprun", "--hosts", "--standalone"]),
                ({"JOB_COMPLETION_INDEX": "0"}, ["JOB_COMPLETION_INDEX", "--nnodes", "--standalone"]),
                ({"MASTER_ADDR": "a", "RANK": "0", "WORLD_SIZE": "2"}, ["WORLD_SIZE=2", "--nnodes", "--standalone"]),
                ({"RANK": "1", "WORLD_SIZE": "2"}, ["WORLD_SIZE=2", "--master-addr", "--standalone"]),
                ({"RANK": "3"}, ["RANK=3 is set without WORLD_SIZE", "--master-addr", "--standalone"]),
                ({"CLUSTER_SPEC": '{"cluster":{"workerpool0":["n2:1"]'}, ["CLUSTER_SPEC", "is no JSON", "--scheduler none"]),
                ({"PBS_JOBID": "4.srv"}, ["PBS_NODEFILE is not set", "--hosts", "--hostfile", "--standalone"])):
            code, out, err = self.run_job("--nproc-per-node=2", *worker("say", "x"), env=environment)
            self.assertEqual((code, out, err.count("\n")), (2, "", 0), err)
            for word in words:
                self.assertIn(word, err)

    def test_who_has_said_what_is_meant_runs(self):
        one = BATCH | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_NUM_NODES": "1"}
        for flags, environment in ((["--standalone"], STEP), (["--nnodes=1"], STEP), ([], STEP | {"PET_NNODES": "1"}),
                                   (["--scheduler=none"], STEP), (["--standalone"], BATCH), ([], one),
                                   (["--standalone"], {"WORLD_SIZE": "8", "RANK": "3"}),
                                   (["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"], BARE), (["--rdzv-endpoint=localhost:0"], BATCH)):
            self.assertEqual(self.run_job("--nproc-per-node=1", *flags, *worker("say", "x"), env=environment), (0, "x", ""))

    def test_a_launcher_within_a_worker_is_none_of_the_tasks(self):
        self.assertEqual(self.run_job("--standalone", program("ddprun"), *worker("say", "x"), env=STEP), (0, "x", ""))

    def test_a_file_that_the_environment_names_is_read(self):
        with tempfile.NamedTemporaryFile("w") as hosts:
            pbs = {"PBS_JOBID": "1", "PBS_NODEFILE": hosts.name}
            hosts.write("n1\nn1\n")
            hosts.flush()
            self.assertEqual(self.run_job("--nproc-per-node=1", *worker("say", "x"), env=pbs), (0, "x", ""))
            hosts.write("n2\n")
            hosts.flush()
            code, out, err = self.run_job("--nproc-per-node=1", *worker("say", "x"), env=pbs)
            self.assertEqual((code, out), (2, ""))
            self.assertIn("2 nodes (PBS_NODEFILE)", err)


class Adapted(EndToEndTest):
    """Each task becomes a worker of its own."""

    def test_a_task_of_srun(self):
        environment = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2",
                       "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
                       "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_NODEID": "1", "SLURM_PROCID": "5", "SLURM_LOCALID": "1"}
        code, out, err = self.run_job("--adapt", *worker("print-env"), env=environment)
        self.assertEqual((code, err), (0, ""))
        for line in ("RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4", "GROUP_RANK=1", "MASTER_ADDR=n1"):
            self.assertIn(line, out.splitlines())
        self.assertEqual(self.run_job("--adapt", "echo", "${local_rank}", env=environment), (0, "1", ""))

    def test_the_program_has_the_exit_code_and_the_signals(self):
        one = {"SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}
        self.assertEqual(self.run_job("--adapt", *worker("exit", "7"), env=one)[0], 7)
        code, out, _ = self.run_job("--adapt", "sh", "-c", "grep SigIgn /proc/$$/status", env=one)
        self.assertEqual(code, 0)
        self.assertEqual(int(out.split()[1], 16) & (1 << 12 | 1 << 24), 0, "SIGPIPE and SIGXFSZ are not ignored")

    def test_a_program_that_is_not_there_is_one_line(self):
        one = {"SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}
        for program_, why in (("/nowhere/to/be/found", "no such file"), ("not_there.py", "no such file"),
                              ("not-a-command", "not found on PATH")):
            code, out, err = self.run_job("--adapt", program_, env=one)
            self.assertEqual((code, out, err), (127, "", f"ddprun: {program_}: {why}"))

    def test_nothing_to_adapt(self):
        code, _, err = self.run_job("--adapt", "true")
        self.assertEqual(code, 2)
        self.assertIn("--adapt: no process launcher", err)


@unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
class UnderMpirun(EndToEndTest):
    def under_mpirun(self, tasks, *words):
        for _ in range(3):  # Open MPI 4.1.4 itself hangs at times when processes end.
            done = subprocess.run(["timeout", str(support.HANG_GUARD), "mpirun", "--oversubscribe", "-np", str(tasks), *words], check=False,
                                  capture_output=True, text=True,
                                  env=self.environment | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
            if done.returncode != 124:
                break
        return done.returncode, done.stdout.split(), done.stderr

    def test_a_process_for_each_gpu(self):
        code, out, err = self.under_mpirun(2, program("ddprun"), *worker("say", "x"))
        self.assertEqual((code, out), (2, []))
        self.assertRegex(err, r"task [01] of 2 of an Open MPI job \(OMPI_COMM_WORLD_SIZE=2\)")
        self.assertEqual(self.under_mpirun(1, program("ddprun"), *worker("say", "x"))[:2], (0, ["x"]))
        self.assertEqual(self.under_mpirun(2, program("ddprun"), "--standalone", *worker("say", "x"))[:2], (0, ["x", "x"]))
        code, out, err = self.under_mpirun(2, program("ddprun"), "--adapt", *worker("print-env"))
        self.assertEqual(code, 0, err)
        for line in ("RANK=0", "RANK=1", "LOCAL_RANK=0", "LOCAL_RANK=1"):
            self.assertEqual(out.count(line), 1, line)
        self.assertEqual(out.count("MASTER_ADDR=127.0.0.1"), 2)

    @unittest.skipUnless(shutil.which("mpicxx.openmpi"), "Open MPI's compiler is not installed")
    def test_open_mpi_in_a_worker_is_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            built = os.path.join(folder, "size")
            subprocess.run(["mpicxx.openmpi", "-x", "c++", "-", "-o", built], input=MPI_PROGRAM, text=True, check=True)
            code, out, err = self.under_mpirun(1, program("ddprun"), "--nproc-per-node=2", built)
        self.assertEqual((code, out), (0, ["size=1", "size=1"]), err)

    def test_an_agent_in_each_task_where_the_user_says_so(self):
        line = (f"{program('ddprun')} --nnodes=2 --node-rank=$OMPI_COMM_WORLD_RANK --master-addr=127.0.0.1 "
                f"--nproc-per-node=1 --master-port={free_port()} {program('worker_stub')} print-env")
        code, out, err = self.under_mpirun(2, "bash", "-c", line)
        self.assertEqual((code, out.count("WORLD_SIZE=2"), out.count("RANK=0"), out.count("RANK=1")), (0, 2, 1, 1), err)


if __name__ == "__main__":
    support.main()
