#!/bin/sh
# Measures our store server against PyTorch's own, in turn, with 64 clients of PyTorch's libtorch.
# Usage: scripts/bench_store.sh [BUILD_DIR]      (default: build; needs the Debian package python3-torch)
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build}
program=$build/bin/store_host_program
if [ ! -x "$program" ]; then
    echo "bench_store.sh: no $program: build the target store_host_program first" >&2
    exit 2
fi
# The limit is for a peer that hangs; a run takes well under a minute.
OMP_NUM_THREADS=1 exec timeout --kill-after=5 300 /usr/bin/python3 "$root/scripts/bench_store.py" "$program"
