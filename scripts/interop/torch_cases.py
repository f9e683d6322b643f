"""The cases with PyTorch alone: process groups, training, RPC, recorded errors, restarts, nodes that come and go."""

import glob
import json
import os
import re
import signal
import subprocess

import environment
from jobs import ROOT, Folder, check_said, elf_guards, support, tail, wait, wait_for_file

COLLECTIVES = ("all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "all_to_all_single", "send_recv",
               "isend_irecv", "batch_isend_irecv", "barrier", "objects")
SINCE_2 = ("reduce_scatter_tensor", "reduce_scatter", "all_to_all", "all_gather_into_tensor")  # with Gloo
GROUPS = ("new_group", "monitored_barrier")  # the last: it breaks the group


def process_groups(results, setting, ranks):
    collectives = (*COLLECTIVES, *(SINCE_2 if setting.pytorch.name == "current" else ()), *GROUPS)
    with Folder() as folder:
        launchers = setting.run(["--nproc-per-node", str(ranks // len(setting.agents))], "process_groups.py",
                                os.path.join(folder, "group"), *collectives)
    check_said(results, setting, launchers, ("file://", "env://", *collectives), ranks)


def training(results, setting, ranks):
    launchers = setting.run([f"--nproc_per_node={ranks // len(setting.agents)}"], "training.py")
    check_said(results, setting, launchers, ("tcp://", "DistributedSampler", "DataLoader workers", "DDP, ranks bit-equal"), ranks)


def parameter_server(results, setting, ranks):
    launchers = setting.run([f"--nproc-per-node={ranks // len(setting.agents)}"], "parameter_server.py")
    check_said(results, setting, launchers, ("RPC parameter server",), ranks)


def sharding(results, setting, ranks, loading_setting, loading_ranks):
    """Saved on more ranks than it is loaded on."""
    with Folder() as folder:
        launchers = setting.run([f"--nproc-per-node={ranks // len(setting.agents)}"], "sharding.py", "save", folder)
        check_said(results, setting, launchers, ("DeviceMesh", "FSDP2", f"distributed.checkpoint saved on {ranks} ranks"), ranks)
        launchers = loading_setting.run([f"--nproc-per-node={loading_ranks // len(loading_setting.agents)}"], "sharding.py",
                                        "load", folder)
        check_said(results, loading_setting, launchers, (f"distributed.checkpoint loaded on {loading_ranks} ranks",), loading_ranks)


def recorded_error(results, setting):
    """What @record has written is in the report, in the result file, and where ddprun's own error file should be."""
    with Folder() as folder:
        result, own = os.path.join(folder, "result.json"), os.path.join(folder, "own_error.json")
        launchers = setting.run(["--nproc-per-node=2", f"--result-file={result}"], "recorded.py", TORCHELASTIC_ERROR_FILE=own)
        failure = {}
        if os.path.exists(result):
            with open(result, encoding="utf-8") as file:
                failure = json.load(file)["first_failure"]
        copied = ""
        if os.path.exists(own):
            with open(own, encoding="utf-8") as file:
                copied = json.load(file)["message"]["message"]
    text = "ValueError: the loss is not a number"
    shown = tail(launchers)
    results.note(setting.title("@record, report"), None if text in launchers[0].err() and launchers[0].code == 1 else
                 f"the report does not say {text!r}, or the exit code {launchers[0].code} is not 1", shown)
    right = failure.get("rank") == 1 and failure.get("error_message") == text and "in main" in (failure.get("traceback") or "")
    results.note(setting.title("@record, result file"), None if right else f"the first failure is {failure}", shown)
    results.note(setting.title("@record, copied to the launcher's error file"),
                 None if copied == text else f"it has {copied!r}", "")


def restart(results, setting, ranks):
    launchers = setting.run(["--max-restarts=1", f"--nproc-per-node={ranks // len(setting.agents)}"], "after_restart.py")
    check_said(results, setting, launchers, ("process group of round 0", "process group of round 1"), ranks)


class ElasticJob:
    """Agents of `--nnodes 1:3` on this machine, with a program that goes on from its checkpoint."""

    def __init__(self, setting, folder):
        self.setting, self.folder = setting, folder
        self.options = ["--nnodes=1:3", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{support.free_port()}", "--rdzv-id=grows",
                        "--rdzv-conf=last_call_timeout=1", "--max-restarts=3"]
        self.agents = []
        self.steps = []

    def one_more(self):
        self.agents.append(self.setting.start(self.options, "resumes.py", self.folder))

    def goes_on(self, agent, world):
        """Waits until rank 0 runs among so many; notes from which step."""
        match = self.agents[agent].wait_for_line(rf"^rank 0 of {world} goes on at step (\d+)$")
        self.steps.append(int(match[1]))

    def finish(self):
        with open(os.path.join(self.folder, "finish"), "w", encoding="ascii"):
            pass
        for agent in self.agents:
            agent.code = wait(agent)


def elastic(results, setting):
    """One node, then three, then two since one is killed: each time from the checkpoint on."""
    with Folder() as folder:
        job = ElasticJob(setting, folder)
        complaint = None
        try:
            job.one_more()
            job.goes_on(0, 1)
            # As a node comes the workers start anew, so the second comes when the first have a checkpoint to go on from.
            wait_for_file(os.path.join(folder, "checkpoint.pt"), "the first checkpoint")
            job.one_more()
            job.goes_on(0, 2)
            job.one_more()
            job.goes_on(0, 3)
            job.agents[2].send(signal.SIGKILL)
            job.goes_on(0, 2)
        except AssertionError as error:
            complaint = str(error)[:200]
        job.finish()
    done = sum(len(re.findall("is done, the total of the steps is right", agent.out())) for agent in job.agents)
    codes = [agent.code for agent in job.agents]
    if not complaint and (codes != [0, 0, -9] or done != 2):
        complaint = f"the agents ended with {codes}, and {done} of 2 ranks were done"
    if not complaint and (job.steps != sorted(job.steps) or job.steps[1] == 0):
        complaint = f"it went on at steps {job.steps}"
    results.note(setting.title("elastic 1:3, grows, shrinks and goes on from its checkpoint"), complaint, tail(job.agents))


DDP_EXAMPLE = os.path.join(ROOT, "apps", "examples", "train_ddprun.py")
DEBUGGED = os.path.join(ROOT, "scripts", "interop", "programs", "backend_debugged.py")


PACKING_LIMIT = 900.0  # seconds; a hang guard: what compiles and packs has other tests beside it


def said_by(words, limit=None, **more):
    """Whether it has ended with 0, and what it has said."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=limit or support.HANG_GUARD, **more)
    return done.returncode == 0, done.stdout


def note_training(results, title, launcher, program, env):
    """A case: the example of DistributedDataParallel learns."""
    right, text = said_by([launcher, "--standalone", "--nproc-per-node=2", program], env=env)
    loss = re.search(r"step 20: loss 0\.(\d+)", text)
    results.note(title, None if right and loss else "it has not learned", text)


def backend_of_the_wheel(results, setting, older):
    """What scripts/package.sh makes with the backend inside, for this torch and for a release that package.sh itself has made an
    environment of: nothing is compiled, nor could it be, and the program does not name ddprun but as the backend."""
    build = os.path.dirname(support.BIN)
    if os.path.realpath(build) != os.path.join(ROOT, "build") or not os.path.exists(os.path.join(build, "CMakeCache.txt")):
        results.skip(setting.title("the wheel with the backend in it"), f"{build} is not the release build")
        return
    try:
        older.make()
    except environment.Unavailable as error:
        results.skip(setting.title("the wheel with the backend in it"), str(error))
        return
    with Folder() as folder:
        python = os.path.join(setting.pytorch.folder, "python3")
        release = older.torch.partition("==")[2]
        right, text = said_by([os.path.join(ROOT, "scripts", "package.sh"), "--torch", python, "--release", release], PACKING_LIMIT)
        wheels = glob.glob(os.path.join(build, "packages", "*.whl"))
        if right and wheels:
            right, text = said_by([python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", folder, *wheels])
        results.note(setting.title("the wheel with the backend in it"), None if right and wheels else "it is not there", text)
        results.note(setting.title("it runs with glibc 2.28"), None if "-manylinux_2_28_" in "".join(wheels) else " ".join(wheels))
        extensions = glob.glob(os.path.join(folder, "ddprun", "torch", "prebuilt", "*", "*.so"))
        results.note(setting.title("the wheel has the backend for both"), None if len(extensions) == 2 else " ".join(extensions) or "none")
        for extension in extensions:
            results.note(setting.title("the backend's guards"), ", ".join(elf_guards.missing(extension)))
        program, cache = os.path.join(folder, "train.py"), os.path.join(folder, "cache")
        with open(DDP_EXAMPLE, encoding="utf-8") as example, open(program, "w", encoding="utf-8") as file:
            file.write(re.sub("^import ddprun.torch.*", "", example.read(), flags=re.MULTILINE))
        env = {**setting.environment(PYTHONPATH=folder, XDG_CACHE_HOME=cache), "PATH": setting.pytorch.folder}
        ddprun = os.path.join(folder, "bin", "ddprun")
        note_training(results, setting.title("a job of the wheel, without a compiler"), ddprun, program, env)
        note_training(results, setting.title(f"the same with torch {release}"), ddprun, DDP_EXAMPLE, {**env, "PATH": os.path.dirname(older.python)})
        note_launchers(results, setting, folder, env)
        note_first_use(results, setting, env)
        results.note(setting.title("a job of the wheel has made no extension"), os.path.exists(cache) and "there is one in the cache")


# FIRST_USE prints how long it takes until the backend is there: for a user, the first lines of a program.
FIRST_USE = """
import time, torch.distributed as dist
began = time.perf_counter()
import ddprun.torch
dist.init_process_group("ddprun", store=dist.HashStore(), rank=0, world_size=1)
print(f"{time.perf_counter() - began:.2f} s")
"""


def note_first_use(results, setting, env):
    right, text = said_by([os.path.join(setting.pytorch.folder, "python3"), "-c", FIRST_USE], env=env)
    results.note(setting.title(f"the backend's first use takes {text.strip() if right else '?'}"), None if right else "it has not come", text)


# A program that knows torchrun's variables, under a launcher that has others.
BY_MPI = 'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE exec "$0" "$1"'


def note_launchers(results, setting, folder, env):
    """Cases: the installed wheel under each launcher, with PyTorch's wrapper around each group."""
    program, python = DEBUGGED, os.path.join(setting.pytorch.folder, "python3")
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(support.free_port()), "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_plm": "isolated"}
    for name, words, more in (
            ("ddprun", [os.path.join(folder, "bin", "ddprun"), "--standalone", "--nproc-per-node=2", program], {}),
            ("torchrun", [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", program], {}),
            ("mpirun", ["/usr/bin/mpirun", "--oversubscribe", "-np", "2", "/bin/bash", "-c", BY_MPI, python, program], address)):
        if not os.path.exists(words[0]):
            results.skip(setting.title(f"the wheel under {name}"), f"there is no {words[0]}")
            continue
        for _ in range(2 if name == "mpirun" else 1):  # Open MPI 4.1.4 itself hangs at times when processes end.
            try:
                right, text = said_by(words, env={**env, **more, "TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
                break
            except subprocess.TimeoutExpired:
                right, text = False, "it does not end"
                print(f"{name} has not ended", flush=True)
        results.note(setting.title(f"the wheel under {name}"), None if right and text.count("ok a program") == 2 else "it does not work", text)


def backend_of_an_older_torch(results, setting, older):
    """The same source compiled for it, when the first rank asks."""
    try:
        older.make()
    except environment.Unavailable as error:
        results.skip(setting.title("the backend"), str(error))
        return
    build = os.path.dirname(support.BIN)
    with Folder() as folder:
        env = setting.environment(PYTHONPATH=os.path.join(ROOT, "apps", "python"), XDG_CACHE_HOME=folder, DDPRUN_COLLECTIVES_LIBRARY=os.path.join(
            build, "collectives", "package", "libddprun_collectives.so"))
        note_training(results, setting.title("the backend, compiled at its first use"), os.path.join(support.BIN, "ddprun"), DDP_EXAMPLE, env)
        note_first_use(results, setting, env)
        right, text = said_by([os.path.join(support.BIN, "ddprun"), "--standalone", "--nproc-per-node=2", DEBUGGED],
                              env={**env, "TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
        results.note(setting.title("PyTorch's wrapper around each group"), None if right and text.count("ok a program") == 2 else "it does not work", text)
        right, text = said_by([os.path.join(support.BIN, "ddprun"), "--standalone", "--nproc-per-node=2",
                               os.path.join(ROOT, "scripts", "interop", "programs", "backend_late.py"), os.path.join(folder, "late")], env=env)
        told = "rank 0 waits for rank 1: there the extension for torch is being made" in text
        results.note(setting.title("a rank that makes its extension is waited for"), None if right and told else "it is not", text)
