"""What people type who know another launcher, or mistype this one: one line that says what to type, before anything starts."""

import os
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support import EndToEndTest, free_port, main, program

USAGE, NOT_EXECUTABLE, NOT_FOUND = 2, 126, 127
SCRIPT = "import os, sys\nprint(os.environ['RANK'], os.environ['WORLD_SIZE'], sys.argv[1:], flush=True)\n"

# The words, and what to type in their place.
HABITS = (
    # mpirun, mpiexec
    ("-np 4", "--nproc-per-node 4"), ("--np 4", "--nproc-per-node 4"), ("-np=4", "--nproc-per-node 4"),
    ("-n 4", "--nproc-per-node 4"), ("--n 4", "--nproc-per-node 4"), ("-n4", "--nproc-per-node 4"),
    ("-N 2", "--nnodes 2, or --nproc-per-node 2"), ("-H a:2", "--hosts a:2"), ("--host a,b", "--hosts a,b"),
    ("-x A=B", "--env A=B"), ("--machinefile hosts", "--hostfile hosts"), ("-machinefile hosts", "--hostfile hosts"),
    ("-hostfile hosts", "--hostfile"), ("-npernode 4", "--nproc-per-node 4"), ("--npernode=4", "--nproc-per-node 4"),
    ("-ppn 4", "--nproc-per-node 4"), ("--map-by core", "--bind cores, numa or none"), ("-bind-to core", "--bind cores"),
    ("--report-bindings", "--dry-run"), ("--oversubscribe", "leave it out"), ("--allow-run-as-root", "leave it out"),
    ("-mca btl tcp", "--env OMPI_MCA_NAME=VALUE"), ("-wdir /tmp", "cd /tmp in front of ddprun"), ("--tag-output", "--prefix"),
    ("--timestamp-output", "--prefix='{time} {rank} '"), ("--output-filename out", "--log-dir DIR"), ("-V", "--version"),
    ("-f hosts", "--hostfile hosts"), ("-genv A=B", "--env A=B"), ("--timeout 60", "--time-limit 60s"),
    # srun
    ("--ntasks 8", "--nproc-per-node 8"), ("--ntasks=8", "--nproc-per-node 8"), ("--nodes 2", "--nnodes 2"),
    ("--ntasks-per-node=8", "--nproc-per-node 8"), ("--gpus 8", "--nproc-per-node gpu"), ("--gpus-per-node=8", "--nproc-per-node gpu"),
    ("--gres gpu:8", "--nproc-per-node gpu"), ("-c 4", "OMP_NUM_THREADS=4"), ("--cpus-per-task 4", "OMP_NUM_THREADS=4"),
    ("-w n1,n2", "--hosts n1,n2"), ("--nodelist n1", "--hosts n1"), ("--time 60", "--time-limit 60m"),
    ("--signal USR1@60", "--warn-before S:SIGNAL"), ("--export ALL", "--env NAME=VALUE"), ("-o out", "--log-dir DIR"),
    ("--output=out", "--log-dir DIR"), ("-l", "--prefix"), ("--label", "--prefix"), ("--cpu-bind=cores", "--bind cores"),
    ("--kill-on-bad-exit=1", "leave it out"), ("-K", "leave it out"), ("--pty", "--tty 0"), ("-W 30", "--exit-wait 30"),
    ("-p gpu", "sbatch"), ("--partition=gpu", "sbatch"), ("-J name", "sbatch"), ("--mem 0", "sbatch"), ("-D /tmp", "cd /tmp"),
    # accelerate
    ("--num_processes 8", "--nproc-per-node 8"), ("--num-processes=8", "--nproc-per-node 8"), ("--num_machines 2", "--nnodes 2"),
    ("--machine_rank 1", "--node-rank 1"), ("--main_process_ip a", "--master-addr a"),
    ("--main_process_port 29500", "--master-port 29500"), ("--gpu_ids 0,1", "CUDA_VISIBLE_DEVICES=0,1"),
    ("--mixed_precision bf16", "--env ACCELERATE_MIXED_PRECISION=bf16"), ("--multi_gpu", "leave it out"),
    ("--num_cpu_threads_per_process 4", "--env OMP_NUM_THREADS=4"), ("--config_file a.yaml", "behind the program"),
    # deepspeed
    ("--num_gpus 8", "--nproc-per-node 8"), ("--num_nodes 2", "--nnodes 2"), ("--ssh_port 2222", "--rsh 'ssh -p 2222'"),
    ("--launcher pdsh", "--rsh COMMAND"), ("--deepspeed_config ds.json", "behind the program"),
    ("--bind_cores_to_rank", "--bind cores"), ("--no_ssh", "--node-rank R"), ("--elastic_training", "--nnodes MIN:MAX"),
    # horovodrun
    ("--start-timeout 60", "--join-timeout 60"), ("--min-np 2", "--nnodes MIN:MAX"), ("--reset-limit 3", "--max-restarts 3"),
    ("--network-interface eth0", "--net CIDR"), ("--gloo", "leave it out"),
    # jsrun, aprun
    ("--nrs 4", "--nproc-per-node"), ("-a 1", "--nproc-per-node"), ("-g 1", "--nproc-per-node gpu"), ("-d 4", "OMP_NUM_THREADS=4"), ("-d", "here: --detach"),
    ("-c pass", "here: python3 -c TEXT"),
    ("-E A=B", "--env A=B"), ("-cc cpu", "--bind cores"), ("-L n1", "--hosts n1"),
    # others
    ("-j 2x8", "--nnodes N --nproc-per-node P"), ("--nprocs 8", "--nproc-per-node 8"), ("--num-workers 8", "--nproc-per-node 8"),
    ("--workers=8", "--nproc-per-node 8"), ("--world_size 8", "--nproc-per-node 8"), ("--rank 1", "--node-rank 1"),
    ("--port 29500", "--master-port 29500"), ("--gpu 0", "CUDA_VISIBLE_DEVICES=0"), ("--local_rank 0", "LOCAL_RANK"),
    # the same options, with what a hand slips on
    ("-nproc_per_node=2", "two dashes here: --nproc_per_node=2"), ("-nnodes 2", "two dashes here: --nnodes"),
    ("-standalone", "two dashes here: --standalone"), ("-nproc 2", "two dashes here: --nproc"), ("--nproc-per-nude 2", "did you mean --nproc-per-node?"),
    ("--nproc-per-node = 2", "no blank stands before or behind the ="), ("--nproc-per-node =2", "no blank"),
    ("--lr 0.1", "if it is for train.py, write it behind train.py"), ("--data /data", "if it is for train.py, write it behind train.py"), ("--tee=4", "must be 0 none, 1 stdout, 2 stderr or 3 both"),
    ("--hosts gpu01 gpu02", "hosts stand in one word, like gpu01,gpu02"), ("--hosts u@n1:8 n2:8", "like u@n1:8,n2:8"),
    ("--hosts 10.0.0.1 10.0.0.2", "like 10.0.0.1,10.0.0.2"), ("--hosts gpu[01-03] gpu07", "like gpu[01-03],gpu07"),
    ("--hosts a, b", "like a,b"), ("--hosts a,", "a name is missing"), ("--hosts a,,b", "a name is missing"),
    ("--hosts ,a", "a name is missing"), ("--hosts ,", "a name is missing"), ("—nproc-per-node=2", "type --nproc-per-node=2"),
    ("–nproc-per-node=2", "type --nproc-per-node=2"), ("–-nproc-per-node=2", "type --nproc-per-node=2"),
    ("−m", "type -m"), ("--nproc‑per‑node=2", "type --nproc-per-node=2"), ("“--nproc-per-node=2”", "type --nproc-per-node=2"),
    ("--nproc-per-node\u00a02", "type --nproc-per-node 2"), ("--env “A=B”", "type A=B"), ("“train.py”", "type train.py"))


class HabitsTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file("train.py", SCRIPT)

    def file(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(path, mode)

    def said(self, *words, **options):
        return self.run_job(*words, cwd=self.folder, **options)

    def assert_one_line(self, code, told, *words, **options):
        with self.subTest(words):
            got, out, err = self.said(*words, **options)
            self.assertEqual((got, out, len(err.splitlines())), (code, "", 1), err)
            self.assertRegex(err, "^ddprun: ")
            self.assertIn(told, err)


class Words(HabitsTest):
    def test_another_launchers_words_are_told_ddpruns(self):
        for words, told in HABITS:
            self.assert_one_line(USAGE, told, *re.split(" ", words), "train.py")

    def test_what_works_today_goes_on_to_work(self):
        for words in ("--nproc 2", "--nproc_per_node 2", "--nproc-per-node=2", "--nproc_per=2 --standal", "--nnodes 1 --nproc 2",
                      "--nnodes=1:1 --nproc=2", "--nproc-per-node=2 --", "--nproc-per-node 2 --rdzv_id=", "--nproc-per-node 2 -t0",
                      "--nproc-per-node 2\r", "--nproc-per-node=2 --role n"):
            with self.subTest(words):
                code, out, err = self.said(*words.split(" "), "train.py", "-n", "–x", "--lr=1")
                self.assertEqual((code, err), (0, ""))
                self.assertEqual(sorted(out.splitlines()), [f"{rank} 2 ['-n', '–x', '--lr=1']" for rank in range(2)])

    def test_by_torchruns_name_its_own_abbreviations_count(self):
        torchrun = os.path.join(self.folder, "torchrun")
        os.symlink(program("ddprun"), torchrun)
        job = self.launch("--np", 2, "train.py", name=torchrun, cwd=self.folder)
        self.assertEqual((job.wait(), len(job.seen["out"])), (0, 2), job.err())

    def test_options_behind_the_program_are_told_of_and_passed_on(self):
        for words, told in ((["train.py", "--nproc-per-node", "4"], "--nproc-per-node: went to train.py"),
                            (["train.py", "x", "--nproc_per_node=4"], "--nproc_per_node: went to train.py"),
                            (["train.py", "--nnodes=2"], "--nnodes: went to train.py"),
                            (["-m", "train", "--standalone"], "--standalone: went to train;")):
            with self.subTest(words):
                code, out, err = self.said(*words)
                self.assertEqual(code, 0)
                self.assertEqual(out, f"0 1 {words[2 if words[0] == '-m' else 1:]}")
                self.assertIn(told, err)
                self.assertEqual(len(err.splitlines()), 1)
        # The program's own options, and those of another launcher that it starts.
        for words in (["train.py", "--node-rank", "0", "--max-restarts=3"], ["--nnodes=1", "train.py", "--nnodes=2"],
                      ["sh", "-c", "true", "--nproc-per-node=2"]):
            self.assertEqual(self.said(*words)[2], "", words)
        code, out, err = self.said("train.py", "--lr=1\r")
        self.assertEqual((code, out), (0, "0 1 ['--lr=1\\r']"))
        self.assertRegex(err, r"^ddprun: the last argument of train\.py ends with a carriage return, .*sed -i 's/\\r\$//' FILE")


    def test_a_second_host_without_a_number_is_one_line(self):
        # It may be a program of those hosts, so that the job goes on.
        for hosts, program_, is_odd in (("alpha", "beta", True), ("alpha", "python", False), ("alpha", "sh", False), ("alpha,gamma", "beta", False),
                                        ("alpha", "train.py", False), ("alpha", "./beta", False)):
            code, out, err = self.said("--dry-run", "--hosts", hosts, program_, "train.py")
            self.assertEqual((code, "--hosts" in err, err.count("\n")), (0, is_odd, 0), err)
            self.assertEqual("hosts stand in one word, like alpha,beta" in err, is_odd)


class Programs(HabitsTest):
    def test_a_program_that_is_not_there_is_one_line_with_what_was_meant(self):
        self.file("mybin", "#!/bin/sh\n", 0o755)
        for words, told in ((["mybin"], "mybin: not found on PATH; did you mean ./mybin?"), (["mybni"], "did you mean ./mybin?"),
                            (["./mybni"], "./mybni: no such file; did you mean ./mybin?"), (["train"], "did you mean train.py?"),
                            (["trian.py"], "trian.py: no such file; did you mean train.py?"),
                            (["doctr"], "did you mean doctor?"), (["help"], "did you mean --help?"),
                            (["version"], "did you mean --version?"), (["run", "train.py"], "did you mean ddprun train.py?"),
                            (["launch", "train.py"], "did you mean ddprun train.py?"), (["attach"], "did you mean ddpctl attach?"),
                            (["nproc-per-node=2", "train.py"], "did you mean --nproc-per-node=2?"),
                            (["nnodes", "2"], "did you mean --nnodes?"), (["2", "train.py"], "did you mean --nproc-per-node 2?"),
                            (["--nproc-per-node=", "2", "train.py"], "did you mean --nproc-per-node=2?"),
                            (["--master_addr=", "gpu1", "train.py"], "did you mean --master_addr=gpu1?"),
                            (["python3 train.py"], "these are several words: type them without the quotes"),
                            (["./train --lr 1"], "these are several words"), (["echo hi"], "these are several words"),
                            (["FOO=1", "./train"], "type --env FOO=1, or FOO=1 in front of ddprun"),
                            (["FOO=a b", "./train"], "type --env 'FOO=a b', or"), (["P=/a/b", "train.py"], "type --env P=/a/b, or"),
                            (["cd", "/tmp"], "a word of the shell's, so type bash -c 'cd …'"), (["source", "env.sh"], "bash -c 'source …'"),
                            (["nothing_like_it"], "nothing_like_it: not found on PATH"), (["./far/away"], "./far/away: no such file"),
                            (["--python", "nope"], "nope: no such file"), (["--run-path", "nope"], "nope: no such file"),
                            (["--program", "0:./nope", "train.py"], "./nope: no such file"),
                            (["true", ":", "--nproc-per-node", "1", "./nope"], "./nope: no such file")):
            self.assert_one_line(NOT_FOUND, told, *words)
        self.assert_one_line(NOT_FOUND, "train_not_there.py: no such file", "--nproc-per-node", 8, "train_not_there.py")
        self.assert_one_line(NOT_FOUND, "no-python: not found on PATH (from PYTHON_EXEC)", "train.py", env={"PYTHON_EXEC": "no-python"})
        self.assert_one_line(NOT_FOUND, "python3: not_there.py: no such file", "--nproc-per-node", 8, "python3", "-u", "not_there.py")
        self.assert_one_line(NOT_EXECUTABLE, "not executable here, and no first line (#!) names what runs it; type python3 train.py",
                             "--no-python", "train.py")
        self.assert_one_line(NOT_FOUND, "train: not found on PATH; did you mean ./train.py?", "--no-python", "train")
        self.assert_one_line(NOT_FOUND, "--wrap no-gdb: not found on PATH", "--wrap", "0:no-gdb --args", "train.py")
        self.assert_one_line(NOT_FOUND, "--wrap no-gdb: not found on PATH (from DDPRUN_WRAP)", "train.py", env={"DDPRUN_WRAP": "0:no-gdb"})
        self.assert_one_line(USAGE, "the program's name is empty", "--nproc-per-node", 2, "", "train.py")
        self.assert_one_line(1, "no such file", "--exit-codes=one", "train_not_there.py")

    def test_a_python_that_is_not_there_is_told_the_one_that_is(self):
        on_path = os.path.join(self.folder, "bin")
        os.mkdir(on_path)
        for told in ("", "; did you mean python3?"):
            for name in ("python", "pyton3", "python3.99"):
                code, _, err = self.said(name, "train.py", env={"PATH": on_path})
                self.assertEqual((code, err), (NOT_FOUND, f"ddprun: {name}: not found on PATH{told}"))
            if not told:
                os.symlink(sys.executable, os.path.join(on_path, "python3"))
        self.assertEqual(self.said("python3", "nope.py", env={"PATH": on_path})[2], "ddprun: python3: nope.py: no such file")

    def test_what_may_not_be_looked_at_is_not_said_to_be_missing(self):
        os.mkdir(os.path.join(self.folder, "closed"))
        self.file("closed/train.py", SCRIPT)
        self.file("closed/train", "#!/bin/sh\n", 0o755)
        os.symlink("gone.py", os.path.join(self.folder, "link.py"))
        os.chmod(self.folder, 0o755)
        # Whoever is root may enter every folder.
        prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.geteuid() == 0 else ()
        os.chmod(os.path.join(self.folder, "closed"), 0)
        self.addCleanup(os.chmod, os.path.join(self.folder, "closed"), 0o755)
        for words, named in ((("closed/train.py",), "closed"), (("./closed/train",), "./closed"), (("python3", "closed/train.py"), "closed"),
                             (("--on-failure", "closed/train", "train.py"), "closed")):
            self.assert_one_line(USAGE if words[0] == "--on-failure" else NOT_EXECUTABLE,
                                 f"train{'.py' if words[-1] == 'closed/train.py' else ''}: permission denied: the folder {named} may not be entered",
                                 *words, env={"HOME": "/"}, prefix=prefix)
        self.assert_one_line(NOT_EXECUTABLE, "train.py is no folder", "./train.py/x")
        code, _, err = self.said("link.py")
        self.assertEqual((code, err), (NOT_FOUND, "ddprun: link.py: it is a link to gone.py, which is not there"))

    def test_a_folder_for_python_is_one_line(self):
        os.makedirs(os.path.join(self.folder, "venv", "bin"))
        self.assert_one_line(NOT_EXECUTABLE, "venv: it is a directory (from PYTHON_EXEC)", "train.py", env={"PYTHON_EXEC": "venv"})
        os.symlink(sys.executable, os.path.join(self.folder, "venv", "bin", "python3"))
        self.assert_one_line(NOT_EXECUTABLE, "did you mean ./venv/bin/python3? (from PYTHON_EXEC)", "train.py", env={"PYTHON_EXEC": "./venv"})

    def test_a_script_of_another_language_is_not_pythons(self):
        self.file("run.bash", "echo ran\n")
        for name, runs in (("./run.bash", "type bash ./run.bash"), ("run.bash", "type bash run.bash")):
            self.assert_one_line(NOT_EXECUTABLE, runs, name)
        self.assertEqual(self.said("bash", "run.bash")[:2], (0, "ran"), "what was advised works")
        self.file("x.jl", "print(1)\n")
        self.assert_one_line(NOT_EXECUTABLE, "type julia ./x.jl, but no julia is on PATH", "./x.jl", env={"PATH": self.folder})
        self.file("julia", "#!/bin/sh\n", 0o755)
        code, _, err = self.said("./x.jl", env={"PATH": self.folder})
        self.assertTrue(err.endswith("type julia ./x.jl"), err)
        for ending, runner in (("pl", "perl"), ("R", "Rscript"), ("js", "node")):
            self.file(f"x.{ending}", "print(1)\n")
            self.assert_one_line(NOT_EXECUTABLE, f"no first line (#!) names what runs it; type {runner} ./x.{ending}", f"./x.{ending}")

    def test_what_cannot_be_executed_is_one_line(self):
        self.file("plain", "#!/bin/sh\n")
        self.file("other", "#!/no/such/interpreter -x\n", 0o755)
        self.file("windows", "#!/bin/sh\r\necho hi\r\n", 0o755)
        os.mkdir(os.path.join(self.folder, "empty"))
        self.file("bare.sh", "echo ran\n")
        for name, told in (("./plain", "chmod +x"), ("./bare.sh", "chmod +x"), ("/dev/null", "no file that can be executed"),
                           ("./other", "/no/such/interpreter"), (".", "directory"), ("./empty", "directory"),
                           ("./windows", r"part of the name, as lines of Windows do; sed -i 's/\r$//' FILE")):
            self.assert_one_line(NOT_EXECUTABLE, told, name)
        os.chmod(os.path.join(self.folder, "bare.sh"), 0o755)
        self.assertEqual(self.said("./bare.sh")[:2], (0, "ran"), "what was advised helps")

    def test_a_carriage_return_is_named_with_what_removes_it(self):
        for words in (["train.py\r"], ["--nproc-per-node=2", "\r"], ["--rdzv-id=x\r", "train.py"], ["--rdzv-id", "x\r", "train.py"],
                      ["--standalone\r"], ["--", "train.py\r"]):
            self.assert_one_line(USAGE, r"ends with a carriage return, as lines of Windows do; sed -i 's/\r$//' FILE", *words)

    def test_what_only_a_wrapper_sees_is_left_to_it(self):
        self.file("container", "#!/bin/sh\necho \"$*\"\n", 0o755)
        self.assertEqual(self.said("--wrap", "*:./container", "/in/it/train.py", "x")[:2], (0, "python3 -u /in/it/train.py x"))
        self.assertEqual(self.said("--wrap", "*:./container", "/in/it/program")[:2], (0, "/in/it/program"))
        self.assertEqual(self.said("/in/it/train.py", env={"PYTHON_EXEC": "./container"})[:2], (0, "-u /in/it/train.py"))

    def test_a_variable_that_is_the_programs_own_is_named(self):
        for value in ("yes", "true", "on"):
            self.assert_one_line(USAGE, f"--standalone {value}: must be 1 or 0 (from PET_STANDALONE)", "train.py",
                                 env={"PET_STANDALONE": value})

    def test_python_reads_other_things_than_files(self):
        self.assertEqual(self.said("--python", "--", "-c", "print(5)")[:2], (0, "5"))
        self.assert_one_line(USAGE, "standard input, which is empty", "--python", "-")
        self.file("windows.py", SCRIPT.replace("\n", "\r\n"))
        self.assertEqual(self.said("windows.py"), (0, "0 1 []", ""))

    def test_of_several_nodes_all_are_told_before_python_says_it_for_each_rank(self):
        port = free_port()
        flags = ("--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={port}", "--nproc-per-node=4")
        agents = [self.launch(*flags, f"--node-rank={node}", "train_not_there.py", cwd=self.folder) for node in range(2)]
        for agent in agents:
            self.assertEqual(agent.wait(), NOT_FOUND)
            self.assertIn("train_not_there.py': no such file", agent.err())
            self.assertNotIn("open file", agent.err())


class Tasks(HabitsTest):
    """Of a process launcher: all of a node would say the same."""

    def refusals(self, tasks, *words):
        said = []
        for task in range(tasks):
            variables = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(task), "SLURM_LOCALID": str(task),
                         "SLURM_NTASKS": str(tasks), "SLURM_STEP_NUM_TASKS": str(tasks), "SLURM_STEP_NUM_NODES": "1",
                         "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": str(tasks), "SLURM_NNODES": "1",
                         "SLURM_STEP_NODELIST": os.uname().nodename, "SLURMD_NODENAME": os.uname().nodename}
            code, out, err = self.said(*words, env=variables)
            self.assertEqual((code, out), (USAGE, ""), err)
            said += err.splitlines()
        return said

    def test_a_refusal_is_said_once_per_node(self):
        for words in (["train.py"], ["--no-such-flag", "train.py"], ["-np", "4", "train.py"]):
            with self.subTest(words):
                self.assertEqual(len(self.refusals(4, *words)), 1)
        self.assertEqual(len(self.refusals(1, "--no-such-flag", "train.py")), 1)


if __name__ == "__main__":
    main()
