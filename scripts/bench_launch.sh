#!/usr/bin/env bash
# The launch figures: start-up, memory and time to a clean end of ddprun beside xargs, mpirun and torchrun, and that end
# beside thousands of foreign processes.
# Exits with 1 when a figure misses its goal. `--rounds N` sets how often the fast programs run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/cmake/build_bench.sh ddprun -- "$@"
exec python3 -B scripts/bench_launch.py "$@"
