#!/usr/bin/env bash
# The supervision figures: from a worker's failure to a clean end, what is left behind, wake-ups of an idle launcher,
# and the logs, beside mpirun and torchrun. Exits with 1 when a figure misses its goal. `--rounds N` sets how often.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/cmake/build_bench.sh ddprun -- "$@"
exec python3 -B scripts/bench_supervision.py "$@"
