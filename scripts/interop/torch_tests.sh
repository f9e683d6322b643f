#!/usr/bin/env bash
# The backend `ddprun` of PyTorch: programs of its own, and PyTorch's tests of process groups, those under the backend's name and
# those that it keeps for Gloo. The last line is `N passed, N failed`. PyTorch is the one that interop.sh has installed, or
# $DDPRUN_PYTHON's; the library and ddprun are those of BUILD (default: build).
# Usage: scripts/interop/torch_tests.sh [--quick] [BUILD]     --quick: not those that PyTorch keeps for Gloo
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

quick=
if [[ ${1:-} == --quick ]]; then
    quick=1
    shift
fi
build=${1:-build}
python=${DDPRUN_PYTHON:-build/interop/venv/bin/python3}
if [[ ! -x $python ]]; then
    echo "torch_tests.sh: there is no $python: run scripts/interop.sh once, or set DDPRUN_PYTHON" >&2
    exit 2
fi
export DDPRUN_COLLECTIVES_LIBRARY=$build/collectives/package/libddprun_collectives.so
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$PWD/$build/cache} XDG_CONFIG_HOME=/dev/null/none OMP_NUM_THREADS=1
export PYTHONPATH=$PWD/apps/python${PYTHONPATH:+:$PYTHONPATH} PATH="$(dirname "$python"):$PATH"

# PyTorch's tests want these, and nobody else does.
tools=$build/torch_tests
if [[ ! -d $tools ]] && ! "$python" -c "import expecttest, hypothesis" 2>/dev/null; then
    "$python" -m pip install -q --no-deps --target "$tools" expecttest hypothesis sortedcontainers
fi
[[ ! -d $tools ]] || PYTHONPATH=$PYTHONPATH:$tools

passed=0 failed=0
# count NAME COMMAND...: a suite, whose last line says how many.
count() {
    local name=$1 last
    shift
    echo "== $name"
    last=$(timeout --kill-after=5 1200 "$@" 2>&1 | tee >(cat >&2) | tail -n 1) || true
    if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
        passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    else
        failed=$((failed + 1))
    fi
}
# program COMMAND...: it counts as one.
program() {
    local code=0
    timeout --kill-after=5 300 "$@" 2>&1 || code=$?
    echo "$((code == 0)) passed, $((code != 0)) failed"
}
export -f program

count "programs" bash -c 'program "$@"' _ "$build/bin/ddprun" --standalone --nproc-per-node=3 scripts/interop/programs/backend.py
count "the example" bash -c 'program "$@"' _ "$build/bin/ddprun" --standalone --nproc-per-node=2 apps/examples/train_ddprun.py
count "a killed rank" bash -c 'program "$@"' _ "$python" -B scripts/interop/programs/backend_death.py
for end in "" destroy; do
    count "Python's end amid calls $end" bash -c 'program "$@"' _ "$build/bin/ddprun" --standalone --nproc-per-node=2 \
        scripts/interop/programs/backend_exit.py $end
done
count "under the backend's own name, 3 ranks" "$python" -B scripts/interop/backend_tests.py own
[[ -n $quick ]] || count "what PyTorch keeps for Gloo, 3 ranks" "$python" -B scripts/interop/backend_tests.py gloo
# Ranks that are about to end may still be writing a line.
printf '\n%s\n' "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
