"""The log figures: the output of four ranks through `--tee 3`, beside four coreutils `tee`, and whole lines in order.

Both sides run the same writers and end with the same files: one for each rank and the console, which is a file opened for
appending. They run in turn, each first in every other round. Before each run as many bytes are written and removed as the run
will write: otherwise who comes first pays for the pages that a virtual machine has to fetch from its host.
"""

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import time

from bench_launch import PYTHON, Table, machine

RANKS = 4
LINE_BYTES = 100
WRITE_BYTES = 64 * 1024
MEGABYTE = 1_000_000
SPEED_GOAL = 0.6
MEMORY = "/dev/shm"
PAGES = 2.2  # bytes written for each byte printed: file, console, headers
CHUNK_RANKS = 8
CHUNK_LINES = 10_000
MAX_CHUNK_BYTES = 3000

# Writes its second argument's count of bytes in lines, 64 KiB at a time.
WRITER = f"""
import os, sys
line = b"x" * {LINE_BYTES - 1} + b"\\n"
block = line * ({WRITE_BYTES} // len(line))
left = int(sys.argv[1])
while left > 0:
    left -= os.write(1, block[:left])
"""

# Writes numbered lines of random width on stdout and stderr, each cut into chunks at random.
CHUNKED_WRITER = f"""
import os, random, sys
rank = os.environ["RANK"]
rng = random.Random(f"{{sys.argv[1]}} {{rank}}")
texts = ["".join(f"{{name}}{{rank}} {{i}} " + "x" * rng.randrange(100) + "\\n" for i in range({CHUNK_LINES})).encode()
         for name in "oe"]
at = [0, 0]
while at[0] < len(texts[0]) or at[1] < len(texts[1]):
    stream = rng.randrange(2)
    at[stream] += os.write(1 + stream, texts[stream][at[stream]:at[stream] + rng.randrange(1, {MAX_CHUNK_BYTES})] or b"")
"""


def run(argv, console_path):
    """Seconds from start to exit, and the processor seconds of it and its children."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_OPEN, 1, console_path, flags, 0o600),
               (os.POSIX_SPAWN_OPEN, 2, console_path + ".err", flags, 0o600)]
    started = time.monotonic()
    pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.monotonic() - started
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        with open(console_path + ".err", encoding="utf-8", errors="replace") as file:
            sys.exit(f"bench_logs: {' '.join(argv)} ended with {code}:\n{file.read()}")
    return seconds, usage.ru_utime + usage.ru_stime


def files_named(folder, name):
    return [os.path.join(base, name) for base, _, names in os.walk(folder) if name in names]


def warm_pages(folder, size):
    path = os.path.join(folder, "warm")
    block = bytes(1 << 20)
    with open(path, "wb", buffering=0) as file:
        for _ in range(size // len(block) + 1):
            file.write(block)
    os.remove(path)


def ddprun_speed(ddprun, folder, writer, size):
    logs = os.path.join(folder, "logs")
    console = os.path.join(folder, "console")
    measured = run([ddprun, "--nproc-per-node", str(RANKS), "--no-python", "--tee", "3", "--log-dir", logs, PYTHON, "-I", "-S",
                    writer, str(size)], console)
    if sorted(os.path.getsize(path) for path in files_named(logs, "stdout.log")) != [size] * RANKS:
        sys.exit("bench_logs: ddprun did not write what the ranks printed into their files")
    header = len("[default0]:")
    if os.path.getsize(console) != RANKS * (size + -(-size // LINE_BYTES) * header):
        sys.exit("bench_logs: ddprun's console does not hold every line")
    return measured


def tee_speed(folder, writer, size):
    console = os.path.join(folder, "console")
    one = f"{PYTHON} -I -S '{writer}' {size} | tee '{folder}/$rank' &"
    script = f"for rank in $(seq {RANKS}); do {one} done; wait".replace("$rank'", "'$rank")
    measured = run(["bash", "-c", script], console)
    if os.path.getsize(console) != RANKS * size:
        sys.exit("bench_logs: the tees did not write everything")
    return measured


def speed_figure(table, ddprun, rounds, megabytes, place):
    size = megabytes * MEGABYTE // LINE_BYTES * LINE_BYTES
    results = {"ddprun": [], "tee": []}
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-", dir=place) as outer:
        writer = os.path.join(outer, "writer.py")
        with open(writer, "w", encoding="utf-8") as file:
            file.write(WRITER)
        for number in range(rounds + 1):
            for name in sorted(results, reverse=number % 2 == 1):
                warm_pages(outer, int(PAGES * RANKS * size))
                with tempfile.TemporaryDirectory(dir=outer) as folder:
                    measured = ddprun_speed(ddprun, folder, writer, size) if name == "ddprun" else tee_speed(
                        folder, writer, size)
                # The first round only warms up.
                if number > 0:
                    results[name].append(measured)
    ours, theirs = ([seconds for seconds, _ in results[name]] for name in ("ddprun", "tee"))
    ratio = statistics.median(their / our for our, their in zip(ours, theirs))
    total = RANKS * size / MEGABYTE

    def speed(seconds):
        return f"{total / statistics.median(seconds):,.0f} MB/s ({total / max(seconds):,.0f}-{total / min(seconds):,.0f})"

    table.add(f"{RANKS} ranks x {megabytes} MB, --tee 3 to files and a console (a file) in {place}", speed(ours), speed(theirs),
              f"{ratio:.2f}", f">= {SPEED_GOAL}", ratio >= SPEED_GOAL)
    cpu = {name: statistics.median(used for _, used in runs) for name, runs in results.items()}
    table.add("  processor seconds, writers included", f"{cpu['ddprun']:.2f} s", f"{cpu['tee']:.2f} s",
              f"{cpu['ddprun'] / cpu['tee']:.2f}")


def wrong_lines(text, name, rank):
    """What is wrong with the lines of one stream of one rank; nothing if all are there, whole and in order."""
    lines = text.splitlines()
    if len(lines) != CHUNK_LINES:
        return f"{len(lines)} lines"
    for number, line in enumerate(lines):
        if not line.startswith(f"{name}{rank} {number} ") or line.split(" ", 2)[2].strip("x"):
            return f"line {number} is {line!r}"
    return None


def chunks_wrong(ddprun, seed):
    """The first thing that is wrong with one run, or nothing."""
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        writer = os.path.join(folder, "writer.py")
        with open(writer, "w", encoding="utf-8") as file:
            file.write(CHUNKED_WRITER)
        console = os.path.join(folder, "console")
        run([ddprun, "--nproc-per-node", str(CHUNK_RANKS), "--no-python", "--tee", "3", "--log-dir", folder, PYTHON, "-I", "-S",
             writer, str(seed)], console)
        for name, stream, path in (("o", "stdout", console), ("e", "stderr", console + ".err")):
            by_rank = {rank: [] for rank in range(CHUNK_RANKS)}
            with open(path, encoding="ascii", newline="\n") as file:
                for line in file:
                    header, _, rest = line.partition("]:")
                    rank = header.removeprefix("[default")
                    if not rank.isdigit() or int(rank) not in by_rank:
                        return f"a torn line on the console: {line!r}"
                    by_rank[int(rank)].append(rest)
            for path in files_named(folder, f"{stream}.log"):
                rank = int(os.path.basename(os.path.dirname(path)))
                with open(path, encoding="ascii", newline="\n") as file:
                    text = file.read()
                wrong = wrong_lines(text, name, rank) or (None if "".join(by_rank.pop(rank)) == text else "console differs")
                if wrong:
                    return f"rank {rank} {stream}: {wrong}"
            if by_rank:
                return f"no {stream} file of ranks {sorted(by_rank)}"
    return None


def chunk_figure(table, ddprun, rounds):
    seeds = [random.randrange(1 << 32) for _ in range(rounds)]
    print(f"seeds: {' '.join(map(str, seeds))}", flush=True)
    wrong = [(seed, what) for seed in seeds for what in [chunks_wrong(ddprun, seed)] if what]
    for seed, what in wrong:
        print(f"seed {seed}: {what}")
    table.add(f"{CHUNK_RANKS} ranks x {CHUNK_LINES:,} lines on each stream in random chunks", f"{len(wrong)} of {rounds} wrong", "",
              "", "none torn, lost, out of order; console = files", not wrong)


def main():
    parser = argparse.ArgumentParser(prog="bench_logs.py", description="The log figures, beside coreutils' tee.")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of the speed figure (default 9, at least 1)")
    parser.add_argument("--chunk-rounds", type=int, default=10, help="rounds of the random chunks (default 10)")
    parser.add_argument("--megabytes", type=int, default=200, help="what each rank writes (default 200)")
    parser.add_argument("--folder", action="append", metavar="DIR",
                        help="where the files of the speed figure are; repeatable (default: memory, and the temporary files)")
    parser.add_argument("--ddprun", default="build/bin/ddprun", help="the program to measure")
    arguments = parser.parse_args()
    for name in ("rounds", "chunk_rounds", "megabytes"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(arguments, name)}: at least 1")
    if not os.access(arguments.ddprun, os.X_OK):
        parser.error(f"--ddprun {arguments.ddprun}: no such program")
    ddprun = os.path.abspath(arguments.ddprun)
    print(f"machine: {machine()}")
    print(f"medians of {arguments.rounds} rounds in turn, lowest and highest in brackets; the ratio is that of pairs", flush=True)
    table = Table()
    needed = int(PAGES * RANKS * arguments.megabytes * MEGABYTE)
    roomy = os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > needed
    for place in arguments.folder or dict.fromkeys([*([MEMORY] if roomy else []), tempfile.gettempdir()]):
        speed_figure(table, ddprun, arguments.rounds, arguments.megabytes, place)
    chunk_figure(table, ddprun, arguments.chunk_rounds)
    table.print()
    return 0 if table.all_met else 1


if __name__ == "__main__":
    sys.exit(main())
