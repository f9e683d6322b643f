#!/usr/bin/env bash
# The backend `ddprun` of PyTorch paired with Gloo in the same processes, 2 and 4 ranks, each row with its bar; without words, then
# NumPy arrays beside mpi4py on Open MPI. PyTorch is the one that interop.sh has installed, or $TORCH_PYTHON's.
# Usage: scripts/interop/bench_torch.sh [--ranks N]... [--rounds N] [WORD...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=${TORCH_PYTHON:-build/interop/venv/bin/python3}
if [[ ! -x $python ]]; then
    echo "bench_torch.sh: there is no $python: run scripts/interop.sh once, or set TORCH_PYTHON" >&2
    exit 2
fi
scripts/cmake/build_bench.sh ddprun_collectives_shared ddprun -- "$@"
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$PWD/build/cache}
# Not what an earlier package.sh has left.
export DDPRUN_COLLECTIVES_LIBRARY=build/collectives/package/libddprun_collectives.so
# The limit is for a peer that hangs; a run takes about five minutes.
timeout --kill-after=5 1500 "$python" -B -W ignore::FutureWarning scripts/interop/bench_torch.py "$@"
if [[ $# -eq 0 ]]; then
    "$python" -c 'import mpi4py' 2>/dev/null || "$python" -m pip install -q mpi4py
    export PYTHONPATH=apps/python
    for ranks in 2 4; do "$python" -B scripts/interop/bench_mpi4py.py --ranks "$ranks"; done
fi
