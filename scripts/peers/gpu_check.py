"""Checks the NCCL backend and prints one table. See gpu_check.sh.

Goals hold on a GPU; on the stand-in (--standin) only what does not depend on speed is judged. Several ranks on one GPU
are processes with a NCCL_HOSTID of their own, which NCCL takes for hosts; they share the GPU by time, so their times say
nothing about NCCL's speed, only about what ddprun adds.
"""

import argparse
import datetime
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

LIMIT_SECONDS = 180
OPERATIONS = ("all_reduce", "reduce_scatter", "reduce", "all_gather", "broadcast", "gather", "scatter", "all_to_all")
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DIGITS = os.path.join(os.path.dirname(HERE), "apps", "data", "digits.csv")


class Table:
    """Rows of what was checked, what came out, what was wanted."""

    def __init__(self):
        self.rows = []

    def add(self, name, figure, goal="", good=None):
        verdict = {None: "", True: "ok", False: "FAILED"}[good]
        self.rows.append((name, figure, goal, verdict))
        print(f"gpu_check: {name}: {figure} {verdict}", file=sys.stderr, flush=True)

    def failed(self):
        return any(row[3] == "FAILED" for row in self.rows)

    def __str__(self):
        rows = [("check", "figure", "goal", ""), *self.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join(lines)


def site_folders():
    """Where Python packages are, of every interpreter here."""
    found = list(sys.path)
    for name in ("python3", "python"):
        if shutil.which(name):
            code = "import sys; print('\\n'.join(sys.path))"
            found += subprocess.run([name, "-c", code], capture_output=True, text=True, check=False).stdout.splitlines()
    found += glob.glob("/opt/*/lib/python3*/site-packages") + glob.glob("/usr/local/lib/python3*/dist-packages")
    return list(dict.fromkeys(folder for folder in found if folder))


def find_nccl():
    """A libnccl.so.2: as told, in PyTorch's packages, or the system's; empty if there is none."""
    if os.environ.get("DDPRUN_NCCL_LIBRARY"):
        return os.environ["DDPRUN_NCCL_LIBRARY"]
    for folder in site_folders():
        path = os.path.join(folder, "nvidia", "nccl", "lib", "libnccl.so.2")
        if os.path.exists(path):
            return path
    for ldconfig in ("ldconfig", "/sbin/ldconfig"):
        if shutil.which(ldconfig):
            listed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout
            match = re.search(r"libnccl\.so\.2 .*=> (\S+)", listed)
            if match:
                return match.group(1)
    for path in ("/usr/local/cuda/lib64/libnccl.so.2", "/usr/local/cuda/lib/libnccl.so.2"):
        if os.path.exists(path):
            return path
    return ""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Rank:
    """One process of a job, and what it printed."""

    def __init__(self, process):
        self.process = process
        self.output = ""
        self.code = None

    def finish(self):
        try:
            self.output, _ = self.process.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.output = self.process.communicate()[0] + "\n(killed: it hung)"
        self.code = self.process.returncode

    def number(self, name):
        match = re.search(rf"^{name} (-?[\d.]+)$", self.output, re.MULTILINE)
        return float(match.group(1)) if match else None


class Check:
    def __init__(self, arguments):
        self.arguments = arguments
        self.bin = os.path.abspath(arguments.bin)
        self.on_gpu = not arguments.standin
        self.table = Table()
        self.base = dict(os.environ, DDPRUN_BACKEND="nccl", NCCL_SOCKET_IFNAME="lo", NCCL_RAS_ENABLE="0")
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "DDPRUN_DEVICE", "STANDIN_NCCL"):
            self.base.pop(name, None)
        library = arguments.standin or arguments.nccl or find_nccl()
        if library:
            self.base["DDPRUN_NCCL_LIBRARY"] = library
        if arguments.standin:
            self.base["DDPRUN_CUDA_LIBRARY"] = arguments.standin

    def program(self, name):
        return os.path.join(self.bin, name)

    def run(self, ranks, name, *words):
        """The program as so many ranks of this machine, each taken for a host by NCCL."""
        port = free_port()
        started = []
        for rank in range(ranks):
            environment = dict(self.base, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK="0", MASTER_ADDR="127.0.0.1",
                               MASTER_PORT=str(port), NCCL_HOSTID=f"gpu-check-{port}-{rank}", DDPRUN_DEVICE="0")
            started.append(Rank(subprocess.Popen([self.program(name), *map(str, words)], env=environment, text=True,
                                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                                 stderr=subprocess.STDOUT)))
        for rank in started:
            rank.finish()
        return started

    def describe(self):
        rank, = self.run(1, "gpu_check_program", "describe")
        match = re.search(r"device \d+ name (.*) nccl (\S+) library (\S+) ", rank.output)
        if rank.code != 0 or not match:
            self.table.add("a communicator of one rank", rank.output.strip()[-300:] or f"exit {rank.code}", "", False)
            return False
        self.title = f"{match.group(1)}, NCCL {match.group(2)} ({match.group(3)})"
        self.table.add("a communicator of one rank", "made", "made", True)
        return True

    def correctness(self, ranks):
        """Every operation, type and reduction, in place and out of place."""
        rows = wrong = 0
        troubles = []
        for operation in OPERATIONS + (("sendrecv",) if ranks > 1 else ()):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "rows.json")
                result = self.run(ranks, "ddpbench", operation, "-b", "1000", "-e", self.arguments.bytes, "-f", "64",
                                  "-n", "1", "-w", "0", "-m", "1", "-d", "all", "-o", "all", "-J", path)
                if any(rank.code != 0 for rank in result):
                    troubles.append(f"{operation}: {result[0].output.strip()[-200:]}")
                    continue
                with open(path, encoding="utf-8") as file:
                    measured = json.load(file)
            rows += len(measured["rows"])
            wrong += measured["wrong"]
        figure = f"{rows} rows, {wrong} elements wrong" + "".join(f"; {trouble}" for trouble in troubles)
        self.table.add(f"every operation and type, {ranks} rank{'s' * (ranks > 1)}", figure, "0 wrong",
                       rows > 0 and wrong == 0 and not troubles)

    def judged(self, good):
        return good if self.on_gpu else None

    def overhead(self):
        rank, = self.run(1, "gpu_check_program", "overhead", self.arguments.large)
        names = ("host_call_ours", "host_call_raw", "device_ours", "device_raw", "large_ours", "large_copy")
        values = {name: rank.number(name) for name in names}
        if rank.code != 0 or None in values.values():
            self.table.add("overhead", rank.output.strip()[-300:], "", False)
            return
        added = values["host_call_ours"] - values["host_call_raw"]
        self.table.add("host call of all_reduce, ours - raw", f"{added:+.2f} us (raw {values['host_call_raw']:.2f})",
                       "<= +1 us", self.judged(added <= 1))
        ratio = values["device_ours"] / values["device_raw"]
        self.table.add(f"device time of all_reduce, {self.arguments.large} MiB, ours / raw", f"{ratio:.3f}", "<= 1.02",
                       self.judged(ratio <= 1.02))
        ratio = values["large_copy"] / values["large_ours"]
        moved = 2 * rank.number("large_bytes") / values["large_ours"] / 1e3
        self.table.add(f"out of place, {self.arguments.large} MiB, rate / copy's", f"{ratio:.3f} ({moved:.0f} GB/s)",
                       ">= 0.9", self.judged(ratio >= 0.9))

    def compare(self, ranks):
        for size in (8, 1 << 20):
            result = self.run(ranks, "gpu_check_program", "compare", size)
            ours, raw = result[0].number("compare_ours"), result[0].number("compare_raw")
            name = f"all_reduce of {size} B, {ranks} ranks, ours / raw"
            if ours is None or raw is None:
                self.table.add(name, result[0].output.strip()[-300:], "<= 1.05", False)
            else:
                self.table.add(name, f"{ours / raw:.3f} (raw {raw:.0f} us)", "<= 1.05", self.judged(ours / raw <= 1.05))

    def kills(self, ranks):
        """One rank is killed: when the others have their errors, and whether they name it."""
        times, named = [], 0
        for seed in range(self.arguments.kills):
            victim = seed % ranks
            result = self.run(ranks, "gpu_check_program", "die", victim, seed)
            died = result[victim].number("died_at")
            survivors = [rank for place, rank in enumerate(result) if place != victim]
            errors = [rank.number("error_at") for rank in survivors]
            if died is None or None in errors or any(rank.code != 3 for rank in survivors):
                print(f"gpu_check: kill {seed}: {[rank.output[-300:] for rank in result]}", file=sys.stderr)
                continue
            times.append(max(errors) - died)
            named += all(f"error peer_died {victim}: " in rank.output for rank in survivors)
        count = self.arguments.kills
        slow = max(times, default=0) / 1e6
        self.table.add(f"SIGKILL of one of {ranks}: survivors' errors", f"{len(times)}/{count}, slowest {slow:.3f} s",
                       f"{count}/{count}, <= 2 s", len(times) == count and (slow <= 2 or not self.on_gpu))
        self.table.add(f"SIGKILL of one of {ranks}: it is named", f"{named}/{count}", f"{count}/{count}", named == count)

    def abort(self, ranks):
        result = self.run(ranks, "gpu_check_program", "abort", 0)
        began = result[0].number("aborted_at")
        errors = [rank.number("error_at") for rank in result]
        good = began is not None and None not in errors and all("error aborted 0: " in rank.output for rank in result)
        figure = f"{(max(errors) - began) / 1e6:.3f} s" if good else result[0].output.strip()[-300:]
        self.table.add(f"abort, {ranks} ranks", figure, "<= 2 s",
                       good and (not self.on_gpu or max(errors) - began <= 2e6))

    def binding(self):
        """Under ddprun: each worker sees one device, its own."""
        mask = os.environ.get("CUDA_VISIBLE_DEVICES", "0") if self.on_gpu else "3,5"
        workers = len(mask.split(","))
        # A shell is nobody whose program can be told to take device 0.
        run = subprocess.run([self.program("ddprun"), "--nproc-per-node", str(workers), "--gpu-bind=single", "--", "bash", "-c",
                              'NCCL_HOSTID="$RANK" exec "$0" describe', self.program("gpu_check_program")],
                             env=dict(self.base, CUDA_VISIBLE_DEVICES=mask), capture_output=True, text=True, check=False,
                             timeout=LIMIT_SECONDS, stdin=subprocess.DEVNULL)
        seen = re.findall(r"rank (\d+) device (\d+) .* CUDA_VISIBLE_DEVICES (\S+) DDPRUN_DEVICE (\S+)", run.stdout)
        wanted = {(str(rank), "0", device, "0") for rank, device in enumerate(mask.split(","))}
        figure = ", ".join(f"rank {rank}: {device}" for rank, _, device, _ in sorted(seen)) or run.stderr[-300:]
        self.table.add("ddprun's binding of devices", figure, f"one each of {mask}", set(seen) == wanted)

    def training(self):
        if not os.path.exists(self.program(self.arguments.train)):
            self.table.add("training example", "left out: it was not built (no nvcc)")
            return
        for ranks in (1, 2):
            result = self.run(ranks, self.arguments.train, "--data", DIGITS, "--epochs", self.arguments.epochs, "--quiet")
            match = re.search(r"test accuracy ([\d.]+)", result[0].output)
            trained = re.search(r"trained in ([\d.]+) s", result[0].output)
            good = all(rank.code == 0 for rank in result) and match and float(match.group(1)) >= 0.9
            figure = (f"{match.group(1)} in {trained.group(1)} s" if match and trained
                      else result[0].output.strip()[-300:])
            self.table.add(f"training example, {ranks} rank{'s' * (ranks > 1)}: test accuracy", figure, ">= 0.9", bool(good))

    def bench(self):
        for size in ("8", "1M", f"{self.arguments.large}M"):
            result = self.run(1, "ddpbench", "all_reduce", "-b", size, "-e", size, "-n", "10")
            row = re.search(r"^ +\d+ +\d+ +float +sum +-1 +([\d.]+) +([\d.]+)", result[0].output, re.MULTILINE)
            self.table.add(f"ddpbench all_reduce {size}, 1 rank",
                           f"{row.group(1)} us, {row.group(2)} GB/s" if row else result[0].output.strip()[-300:], "",
                           None if row else False)

    def all(self):
        self.title = "no communicator"
        if self.describe():
            self.correctness(1)
            self.overhead()
            for ranks in self.arguments.ranks:
                self.correctness(ranks)
                self.compare(ranks)
                self.abort(ranks)
            self.kills(self.arguments.ranks[0])
            self.training()
            self.bench()
            self.binding()
        print(f"{self.title}, {datetime.date.today()}" + ("" if self.on_gpu else "; goals of speed are not judged"))
        print(self.table)
        return 1 if self.table.failed() else 0


def main():
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__)
    parser.add_argument("--bin", required=True, help="the folder of the programs")
    parser.add_argument("--standin", help="NCCL's stand-in, instead of a GPU")
    parser.add_argument("--nccl", help="the path of libnccl.so.2 (found by itself otherwise)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4], help="processes on the GPU (2 3 4)")
    parser.add_argument("--kills", type=int, default=20, help="how often a rank is killed (20)")
    parser.add_argument("--bytes", default="1M", help="the largest size whose data is checked (1M)")
    parser.add_argument("--large", type=int, default=256, help="MiB of the large all_reduce (256)")
    parser.add_argument("--epochs", type=int, default=20, help="of the training example (20)")
    parser.add_argument("--train", default="train_digits_gpu", help="the training example's program")
    return Check(parser.parse_args()).all()


if __name__ == "__main__":
    sys.exit(main())
