#!/usr/bin/env bash
# The figures of a job with a secret: two agents with one beside two without, the store through a door beside direct, ten
# thousand clients of a hundred nodes, what a question costs that comes with others. Exits with 1 when a figure misses its
# goal. `--rounds N` sets how often; see --help. Start-up, size and store beside an earlier build: bench_before.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/cmake/build_bench.sh ddprun rendezvous_load -- "$@"
exec python3 -B scripts/bench_door.py "$@"
