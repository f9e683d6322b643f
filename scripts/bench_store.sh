#!/usr/bin/env bash
# The store figures: our server beside PyTorch's own, in turn, with 64 clients of PyTorch's libtorch. Exits with 1
# when get or add is slower than PyTorch's. Usage: scripts/bench_store.sh [BUILD_DIR]   (default: build)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${1:-build}
if [[ $# -eq 0 ]]; then
    scripts/setup.sh --for bench
    [[ -f build/build.ninja ]] || cmake --preset release
    cmake --build build --target store_host_program
fi
program=$build/bin/store_host_program
if [[ ! -x $program ]]; then
    echo "bench_store.sh: there is no $program: build the target store_host_program" >&2
    exit 2
fi
# The limit is for a peer that hangs; a run takes about half a minute. Debian's PyTorch belongs to this interpreter.
OMP_NUM_THREADS=1 exec timeout --kill-after=5 300 /usr/bin/python3 -B scripts/bench_store.py "$program"
