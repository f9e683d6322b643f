#!/usr/bin/env bash
# The store figures: our server beside PyTorch's own, in turn, with 1, 8 and 64 clients of PyTorch's: of the current one where
# interop.sh has installed it, else of Debian's. Exits with 1 when a figure misses its goal.
# Usage: scripts/bench_store.sh [BUILD_DIR]   (default: build)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in -h | --help) echo "usage: bench_store.sh [BUILD_DIR]   (default: build)"; exit 0 ;; esac
build=${1:-build}
if [[ $# -eq 0 ]]; then
    scripts/cmake/build_bench.sh store_host_program -- "$@"
fi
program=$build/bin/store_host_program
if [[ ! -x $program ]]; then
    echo "bench_store.sh: there is no $program: build the target store_host_program" >&2
    exit 2
fi
# Debian's PyTorch belongs to the system's interpreter.
python=build/interop/venv/bin/python3
[[ -e build/interop/venv/has-torch ]] || python=/usr/bin/python3
# The limit is for a peer that hangs; a run takes about two minutes.
OMP_NUM_THREADS=1 exec timeout --kill-after=5 600 "$python" -B scripts/bench_store.py "$program"
