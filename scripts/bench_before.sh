#!/usr/bin/env bash
# Compares this build with one of an earlier commit, in turn, in one run: launch, failure, logs, store, all_reduce.
# Exits with 1 when a figure is worse than before. Usage: scripts/bench_before.sh BUILD_DIR_OF_BEFORE [--rounds N]
#   git worktree add ../before COMMIT && cmake -S ../before -B ../before/build --preset release && cmake --build ../before/build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/cmake/build_bench.sh ddprun ddpbench store_host_program -- "$@"
OMP_NUM_THREADS=1 exec /usr/bin/python3 -B scripts/bench_before.py "$@"
