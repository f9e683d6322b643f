#!/usr/bin/env bash
# The backend `ddprun` of PyTorch: programs of its own, and PyTorch's tests of process groups, those under the backend's name and
# those that it keeps for Gloo. The last line is `N passed, N failed`. PyTorch is the one that interop.sh has installed, or
# $TORCH_PYTHON's; the library and ddprun are those of BUILD (default: build).
# Usage: scripts/interop/torch_tests.sh [BUILD]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

selections=(own gloo)
build=${1:-build}
python=${TORCH_PYTHON:-build/interop/venv/bin/python3}
if [[ ! -x $python ]]; then
    echo "torch_tests.sh: there is no $python: run scripts/interop.sh once, or set TORCH_PYTHON" >&2
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
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT

passed=0 failed=0
# program NAME COMMAND...: it counts as one.
program() {
    local name=$1 code=0
    shift
    timeout --kill-after=5 300 "$@" >"$said/program" 2>&1 || code=$?
    if [[ $code -eq 0 ]]; then
        echo "ok    $name"
        passed=$((passed + 1))
    else
        echo "FAIL  $name: exit code $code"
        tail -n 18 "$said/program" | sed 's/^/      | /'
        failed=$((failed + 1))
    fi
}

program "the backend, 3 ranks" "$build/bin/ddprun" --standalone --nproc-per-node=3 scripts/interop/programs/backend.py
program "the example" "$build/bin/ddprun" --standalone --nproc-per-node=2 apps/examples/train_ddprun.py
program "a killed rank" "$python" -B scripts/interop/programs/backend_death.py
program "a rank is killed, stands still, is late, leaves, aborts" "$python" -B scripts/interop/programs/backend_torture.py
program "the peers hear of an end before torch's hooks run" "$python" -B scripts/interop/programs/backend_hooks.py
for rendezvous in "--standalone" "--rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:0 --nnodes=1" "--master-addr=127.0.0.1 --master-port=$((10000 + RANDOM % 20000))"; do
    for what in torch numpy; do
        # shellcheck disable=SC2086
        program "restarts under torchrun, $what, $rendezvous" "$(dirname "$python")/torchrun" $rendezvous --max-restarts=3 \
            --nproc-per-node=3 --monitor-interval=0.2 scripts/interop/programs/backend_restart.py "$what" 4
    done
done
program "every variable that people debug with" env TORCH_DISTRIBUTED_DEBUG=DETAIL TORCH_SHOW_CPP_STACKTRACES=1 \
    TORCH_CPP_LOG_LEVEL=INFO TORCH_FR_BUFFER_SIZE=100 TORCH_NCCL_DUMP_ON_TIMEOUT=1 "$build/bin/ddprun" --standalone \
    --nproc-per-node=2 scripts/interop/programs/backend_debugged.py
for end in "" destroy; do
    program "Python's end amid calls $end" "$build/bin/ddprun" --standalone --nproc-per-node=2 \
        scripts/interop/programs/backend_exit.py $end
done
# PyTorch's tests wait more than they compute.
for selection in "${selections[@]}"; do
    timeout --kill-after=5 1200 "$python" -B scripts/interop/backend_tests.py "$selection" >"$said/$selection" 2>&1 &
done
wait
for selection in "${selections[@]}"; do
    cat "$said/$selection"
    # Ranks that are about to end may still have written a line.
    if [[ $(grep -aE "^[0-9]+ passed, " "$said/$selection" | tail -n 1) =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
        passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    else
        echo "FAIL  PyTorch's tests ($selection) have not come to their end"
        tail -n 18 "$said/$selection" | sed 's/^/      | /'
        failed=$((failed + 1))
    fi
done
printf '\n%s\n' "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
