"""A refusal shows the value that is wrong, and where it comes from: an option, a line of a file, a variable that nobody typed."""

import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from support import EndToEndTest

STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "SLURM_NODEID": "0", "SLURM_STEP_NODELIST": "n1,n2"}
BARE = {"MASTER_ADDR": "localhost", "RANK": "0", "WORLD_SIZE": "2", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}

# Variables, and what the one line has to show.
VARIABLES = (
    ({**STEP, "SLURM_NODEID": "x"}, "SLURM_NODEID=x is no whole number from 0 on"),
    ({**STEP, "SLURM_NODEID": "5"}, "node 5 by SLURM_NODEID"),
    ({**STEP, "SLURM_STEP_NUM_NODES": "zz"}, "SLURM_STEP_NUM_NODES=zz is no whole number"),
    ({**STEP, "SLURM_STEP_NODELIST": "n[1"}, "SLURM_STEP_NODELIST: n[1: a '['"),
    ({**STEP, "SLURM_STEP_NODELIST": "192.0.2.77,n2"}, "--master-addr 192.0.2.77: ", "(from SLURM_STEP_NODELIST)"),
    ({"SLURM_JOB_ID": "7", "SLURM_NNODES": "q", "SLURM_NODELIST": "n1"}, "SLURM_NNODES=q is no whole number"),
    ({"PBS_JOBID": "7", "PBS_NODEFILE": "nodes"}, "PBS_NODEFILE=nodes:2: 'n@2' is no name of a host"),
    ({"PBS_JOBID": "7", "PBS_NODEFILE": "none"}, "PBS_NODEFILE=none cannot be read"),
    ({"OAR_JOB_ID": "7", "OAR_NODEFILE": "nodes"}, "OAR_NODEFILE=nodes:2: 'n@2'"),
    ({"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "n1 x"}, "LSB_MCPU_HOSTS=n1 x is no list"),
    ({"LSB_JOBID": "7", "LSB_DJOB_HOSTFILE": "none"}, "LSB_DJOB_HOSTFILE=none is no file"),
    ({"LSB_JOBID": "7", "LSB_HOSTS": "n1 n@3"}, "LSB_HOSTS: 'n@3'"),
    ({**POD, "JOB_COMPLETION_INDEX": "q"}, "JOB_COMPLETION_INDEX=q is no whole number"),
    ({**POD, "JOB_COMPLETION_INDEX": "1"}, "JOB_COMPLETION_INDEX=1"),
    ({**POD, "VC_WORKER_HOSTS": "a,b", "VK_TASK_INDEX": "x"}, "VK_TASK_INDEX=x is no whole number"),
    ({"LWS_LEADER_ADDRESS": "a", "LWS_GROUP_SIZE": "x", "LWS_WORKER_INDEX": "1"}, "LWS_GROUP_SIZE=x is no whole number"),
    ({"LWS_LEADER_ADDRESS": "a b", "LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": "1"}, "LWS_LEADER_ADDRESS: 'a b' is no name of a host"),
    ({"AWS_BATCH_JOB_NUM_NODES": "2", "AWS_BATCH_JOB_NODE_INDEX": "x"}, "AWS_BATCH_JOB_NODE_INDEX=x is no whole number"),
    ({"DSTACK_NODES_NUM": "2", "DSTACK_NODE_RANK": "x", "DSTACK_MASTER_NODE_IP": "192.0.2.77"}, "DSTACK_NODE_RANK=x is no whole number"),
    ({"TPU_WORKER_ID": "x", "TPU_WORKER_HOSTNAMES": "a,b"}, "TPU_WORKER_ID=x is no whole number"),
    ({"SM_HOSTS": '["a"', "SM_CURRENT_HOST": "a"}, 'SM_HOSTS=["a" is no list'),
    ({"SM_HOSTS": '["a","b"]', "SM_CURRENT_HOST": "c"}, "SM_CURRENT_HOST=c is none of its hosts"),
    ({**POD, "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "x", "JAX_COORDINATOR_ADDRESS": "a:1"}, "JAX_PROCESS_ID=x is no whole number"),
    ({"FLUX_JOB_SIZE": "x"}, "FLUX_JOB_SIZE=x is no whole number"),
    ({"RANK": "0", "WORLD_SIZE": "x"}, "WORLD_SIZE=x is no whole number"),
    ({**BARE, "MASTER_PORT": "99999"}, "MASTER_PORT=99999: must be a whole number from 1 to 65535"),
    ({**BARE, "MASTER_PORT": "0"}, "MASTER_PORT=0: must be a whole number from 1 to 65535"),
    ({**STEP, "SLURM_STEP_RESV_PORTS": "x-y"}, "SLURM_STEP_RESV_PORTS=x: must be a whole number from 1 to 65535"),
    ({"PMI_RANK": "x", "PMI_SIZE": "2"}, "PMI_RANK=x is no whole number"),
    ({"PMI_RANK": "3", "PMI_SIZE": "2"}, "PMI_RANK=3 is not below PMI_SIZE=2"),
    ({"MASTER_ADDR": "a b", "RANK": "0", "WORLD_SIZE": "2"}, "MASTER_ADDR: 'a b'"),
    ({"PET_NNODES": "x"}, "--nnodes x: ", "(from PET_NNODES)"),
    ({"DDPRUN_HOSTS": "a:0"}, "--hosts a:0: nothing would run", "(from DDPRUN_HOSTS)"),
    ({"TORCHELASTIC_HEALTH_CHECK_PORT": "x"}, "TORCHELASTIC_HEALTH_CHECK_PORT: 'x'"),
)

# The text of a file of options, and the same.
FILES = (
    ("\nnnodez = 2\n", "line 2, column 1: nnodez: no such option"),
    ("  nnodes = [1, 2]\n", "line 1, column 3: nnodes: takes one value"),
    ("grace = 1\n  shutdown_timeout = 2\n", "line 2, column 3: shutdown_timeout: is said twice"),
    ("log-dir = '$X'\n", "line 1, column 1: log-dir: $X: nothing fills in a $"),
    ("nnodes = 1\nnnodes = 2\n", "line 2, column 10: no TOML"),
    ("\nhosts = 'a:0'\n", "--hosts a:0: nothing would run", "(from {}:2)"),
    ("include = 'c'\nhosts = 'a,b'\n", "--include c: 'c'", "(from {}:1)"),
    ("nproc-per-node = 'x'\n", "--nproc-per-node x: ", "(from {}:1)"),
    ("node-rank = 3\nnnodes = 2\n", "--node-rank 3: ", "(from {}:1)"),
    ("secret-file = '/none'\n", "--secret-file /none: ", "(from {}:1)"),
    ("rank-order = '/none'\n", "--rank-order /none: ", "(from {}:1)"),
    ("rdzv-conf = 'timeout=x'\n", "--rdzv-conf timeout x: ", "(from {}:1)"),
)


# One of several, each of which is started with the same words: its variables, and what names it.
SEVERAL = (
    ({"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "1", "MPI_LOCALRANKID": "0"}, "task 0 of 2", "(PMI_SIZE=2)"),
    ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}, "(OMPI_COMM_WORLD_SIZE=2)"),
    ({**STEP, "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}, "(SLURM_STEP_NUM_TASKS=2)"),
    ({"SKYPILOT_NUM_NODES": "2", "SKYPILOT_NODE_RANK": "1", "SKYPILOT_NODE_IPS": "a\nb"}, "node 1 of 2", "(SKYPILOT_NUM_NODES=2)"),
)


class Refusals(EndToEndTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file("nodes", "n1\nn@2 n3\n")

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def assert_shown(self, shown, *words, **options):
        with self.subTest(shown):
            code, out, err = self.run_job(*words, "true", cwd=self.folder, **options)
            self.assertEqual((code, out, err.count("\n")), (2, "", 0), err)
            for part in shown:
                self.assertIn(part, err)

    def test_variables(self):
        for variables, *shown in VARIABLES:
            self.assert_shown(shown, "--join-timeout", "9", env=variables)

    def test_lines_of_a_file(self):
        for text, *shown in FILES:
            path = self.file("options", text)
            self.assert_shown([part.format(path) if "{}" in part else part for part in shown], "--config", path)
        self.file("hosts", "\n\na slots=x\n")
        self.assert_shown(["--hostfile hosts:3: 'slots=x'"], "--hostfile", "hosts")
        self.assert_shown(["--hostfile hosts:3: 'slots=x'", "(from DDPRUN_HOSTFILE)"], env={"DDPRUN_HOSTFILE": "hosts"})
        self.assert_shown(["cannot be read: has over 1048576 bytes"], "--config", self.file("large", "#" * (1 << 20) + "\n"))

    def test_each_of_several_does_not_start_all_hosts(self):
        self.file("localhost", "localhost\n")
        for variables, *shown in SEVERAL:
            self.assert_shown(["--hosts: this is ", *shown, "leave --hosts out"], "--hosts", "localhost", env=variables)
            self.assert_shown(["--hostfile: this is ", *shown, "(from DDPRUN_HOSTFILE)"], env={**variables, "DDPRUN_HOSTFILE": "localhost"})
            code, out, err = self.run_job("doctor", "--hosts", "localhost", env=variables)
            self.assertEqual((code, out, err.count("\n")), (2, "", 0), err)
            code, out, err = self.run_job("--explain", "--hosts", "localhost", "true", env=variables)
            self.assertEqual(code, 2, out)
            code, out, err = self.run_job("--scheduler", "none", "--hosts", "localhost", "echo", "runs", env=variables)
            self.assertEqual((code, out), (0, "runs"), err)

    def test_the_first_task_of_a_node_says_so(self):
        second = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "1"}
        self.assertEqual(self.run_job("--hosts", "localhost", "true", env=second), (2, "", ""))

    def test_one_task_starts_all_hosts(self):
        for variables in ({"PMI_RANK": "0", "PMI_SIZE": "1"}, {**STEP, "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NODELIST": "n1",
                                                             "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}):
            code, out, err = self.run_job("--hosts", "localhost", "echo", "runs", env=variables)
            self.assertEqual((code, out), (0, "runs"), err)

    def test_a_place_that_is_not_reached(self):
        code, _, err = self.run_job("--join-timeout", "1", "true", env={**STEP, "SLURM_STEP_NODELIST": "nowhere.invalid,n2",
                                                                       "SLURM_NODEID": "1"})
        self.assertEqual(code, 69, err)
        self.assertIn("(from SLURM_STEP_NODELIST)", err)

    def test_a_host_that_is_not_known(self):
        rsh = self.file("rsh", "#!/bin/sh\nexec /bin/sh -c \"$2\"\n")
        os.chmod(rsh, 0o755)
        code, _, err = self.run_job("--rsh", rsh, "--hosts", "nowhere.invalid", "true")
        self.assertNotEqual(code, 0, err)
        self.assertIn("nowhere.invalid: cannot be resolved", err)
        self.assertIn("(from the first host of --hosts)", err)

    def test_folders_and_programs_that_a_variable_names(self):
        # A foreground job does without its folder.
        for variables, words, succeeds, *shown in (
                ({"TMPDIR": "/none"}, (), True, "the folder /none/ddprun_", "TMPDIR"),
                ({"DDPRUN_JOBS_DIR": "/none"}, ("--detach",), False, "'/none/ddprun'", "DDPRUN_JOBS_DIR may name another folder"),
                ({"PYTHON_EXEC": "/none/python"}, ("--python", "nodes"), False, "/none/python: no such file (from PYTHON_EXEC)")):
            code, out, err = self.run_job(*words, "echo", "it runs", cwd=self.folder, env=variables)
            self.assertEqual((code == 0, "it runs" in out), (succeeds, succeeds), err)
            for part in shown:
                self.assertIn(part, err)


if __name__ == "__main__":
    support.main()
