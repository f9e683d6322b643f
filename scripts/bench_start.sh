#!/usr/bin/env bash
# How long `ddprun --hosts` takes for 64 agents on this machine, from the command to its end: by a stub of a remote shell,
# beside the same agents started by a shell with nothing between. Exits with 1 when the figure misses its goal, 1 s.
# `--agents N` and `--rounds N` set how many and how often; see --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/cmake/build_bench.sh ddprun -- "$@"
exec python3 -B scripts/bench_start.py "$@"
