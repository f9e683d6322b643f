"""A Slurm cluster of several nodes on this machine, for one test: its own munge, controller and daemons, in a folder."""

import fcntl
import os
import shutil
import socket
import stat
import subprocess
import tempfile
import time

from support import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sbatch", "scancel", "sinfo")
UP_WITHIN = 180  # seconds; a guard
CONFIGURATION = """
ClusterName=ddprun
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
JobRequeue=1
KillWait=5
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldPort={controller}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
{more}
"""


def missing():
    """Why there can be no cluster here; empty: there can."""
    if os.geteuid() != 0:
        return "only root can start Slurm's daemons"
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


def free_ports(count):
    return [free_port() for _ in range(count)]


class SlurmCluster:
    def __init__(self, nodes=3, proctrack="linuxproc", more="", gpus=0):
        """`more` are further lines of slurm.conf. Whom a signal of Slurm's reaches says `proctrack`: linuxproc signals all
        processes of a step, cgroup and pgid those that Slurm has started itself. `gpus` are what Slurm counts on each node:
        device files that nobody looks into."""
        self.gpus = gpus
        self.names = [f"n{number}" for number in range(1, nodes + 1)]
        self.folder = tempfile.mkdtemp(prefix="ddprun-slurm-")
        os.chmod(self.folder, 0o755)
        self.daemons = []
        self.proctrack = proctrack
        self.more = more
        self.environment = {**os.environ, "SLURM_CONF": os.path.join(self.folder, "slurm.conf")}
        try:
            self.begin()
        except BaseException:
            self.end()
            raise

    def begin(self):
        # Free ports are anybody's until the daemons have them: one cluster at a time begins.
        with open(os.path.join(tempfile.gettempdir(), "ddprun-slurm.lock"), "a", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.begin_alone()

    def begin_alone(self):
        controller, *ports = free_ports(1 + len(self.names))
        os.mkdir(os.path.join(self.folder, "state"))
        devices = f"Gres=gpu:{self.gpus}" if self.gpus else ""
        nodes = "\n".join(f"NodeName={name} NodeAddr=127.0.0.1 NodeHostname={name} Port={port} CPUs=8 RealMemory=500 State=UNKNOWN {devices}"
                          for name, port in zip(self.names, ports))
        if self.gpus:
            self.write_gpus()
            nodes = "GresTypes=gpu\n" + nodes
        with open(self.environment["SLURM_CONF"], "w", encoding="ascii") as file:
            file.write(CONFIGURATION.format(host=socket.gethostname(), folder=self.folder, controller=controller, nodes=nodes,
                                            proctrack=self.proctrack, more=self.more))
        key = os.path.join(self.folder, "munge.key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(128))
        munge = [f"--{name}={os.path.join(self.folder, 'munge.' + name.split('-')[0])}" for name in ("socket", "pid-file", "log-file", "seed-file")]
        self.start("munged", "--force", "--foreground", f"--key-file={key}", *munge)
        self.await_true(lambda: os.path.exists(os.path.join(self.folder, "munge.socket")), "munge's socket")
        self.start("slurmctld", "-D")
        # As on machines of their own: each has its name, which all resolve.
        hosts = os.path.join(self.folder, "hosts")
        with open(hosts, "w", encoding="ascii") as file:
            file.write(f"127.0.0.1 localhost {socket.gethostname()} {' '.join(self.names)}\n")
        for name in self.names:
            self.start("slurmd", "-D", "-N", name,
                       inside=("unshare", "--uts", "--mount", "sh", "-c",
                               f'hostname {name} && mount --bind {hosts} /etc/hosts && exec "$@"', "sh"))
        self.await_true(lambda: self.states() == ["idle"] * len(self.names), "its nodes")

    def write_gpus(self):
        for number in range(self.gpus):
            os.mknod(os.path.join(self.folder, f"gpu{number}"), stat.S_IFCHR | 0o600, os.makedev(1, 3))
        with open(os.path.join(self.folder, "gres.conf"), "w", encoding="ascii") as file:
            file.write(f"AutoDetect=off\nName=gpu File={self.folder}/gpu[0-{self.gpus - 1}]\n")

    def start(self, *words, inside=()):
        with open(os.path.join(self.folder, f"{words[0]}.out"), "ab") as out:
            self.daemons.append(subprocess.Popen([*inside, *words], env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out))

    def states(self):
        told = subprocess.run(["sinfo", "-N", "-h", "-p", "all", "-o", "%t"], env=self.environment, capture_output=True, text=True, check=False)
        return told.stdout.split()

    def await_true(self, condition, what):
        deadline = time.monotonic() + UP_WITHIN
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"the cluster has not got {what} within {UP_WITHIN} s: {self.log()}")
            time.sleep(0.05)  # Slurm has no event for what is asked here.

    def log(self):
        text = ""
        for name in sorted(os.listdir(self.folder)):
            if name.endswith((".log", ".out")):
                with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
                    text += f"\n{name}: {file.read()[-2000:]}"
        return text

    def end(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
