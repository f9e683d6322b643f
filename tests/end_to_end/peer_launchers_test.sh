#!/usr/bin/env bash
# The same collectives program under every launcher whose environment it understands.
#   peer_launchers_test.sh LAUNCHER BIN_DIR [PROGRAM]      LAUNCHER: ddprun, torchrun, mpirun, srun
# Slurm itself is not needed: `srun` stands for three processes with the variables it sets.
set -euo pipefail

launcher="$1" bin="$2"
program="$bin/${3:-collective_program}"
ranks=3
guard=120  # seconds; only a hang comes near it
output="$(mktemp)"
trap 'rm -f "$output"' EXIT

# Below the range from which the kernel gives other programs their ports at any moment.
free_port() {
    python3 - <<'PYTHON'
import random, socket
while True:
    with socket.socket() as s:
        try:
            s.bind(("", random.randrange(10000, 30000)))
        except OSError:
            continue
        print(s.getsockname()[1])
        break
PYTHON
}

require_installed() {
    command -v "$1" >/dev/null && return
    echo "skipped: $1 is not installed"
    exit 77
}

# Every rank has said exactly once that all is well.
require_all_ok() {
    for ((rank = 0; rank < ranks; ++rank)); do
        if [[ "$(grep -c "rank $rank of $ranks: ok" "$output")" != 1 ]]; then
            echo "$launcher: rank $rank did not say that all is well; the output was:"
            cat "$output"
            exit 1
        fi
    done
    echo "$launcher: $ranks ranks: ok"
}

under_ddprun() {
    timeout "$guard" "$bin/ddprun" --nproc-per-node "$ranks" "$program" check-all >"$output"
    require_all_ok
}

# Debian's torchrun 1.13 crashes without -r and -t (Python 3.11); it hosts the store, in the legacy dialect.
under_torchrun() {
    require_installed torchrun
    local run=(timeout "$guard" torchrun -r 1 -t 1 --no_python --nproc_per_node "$ranks" --monitor_interval 1)
    "${run[@]}" --master_port "$(free_port)" "$program" check-all >"$output"
    require_all_ok
    # The launcher must see the job fail, and the survivors must have named the one that died.
    # torchrun ends the others as soon as it sees one: each may say what it knows.
    if "${run[@]}" --master_port "$(free_port)" bash -c 'trap "" TERM; exec "$0" "$@"' "$program" exit-quietly 1 >"$output" 2>/dev/null; then
        echo "torchrun: a job whose rank 1 died ended well"
        exit 1
    fi
    for rank in 0 2; do
        grep -q "^\[default$rank\]:error peer_died 1:" "$output" || { cat "$output"; exit 1; }
    done
    echo "torchrun: the survivors named rank 1"
}

# mpirun_all [-x NAME=VALUE]...: Open MPI 4.1.4 itself hangs at times when processes end; that is not what is tested here.
mpirun_all() {
    local code=0
    for _ in 1 2 3; do
        code=0
        timeout "$guard" mpirun --allow-run-as-root --oversubscribe -np "$ranks" "$@" "$program" check-all >"$output" || code=$?
        if [[ "$code" != 124 ]]; then break; fi
        echo "mpirun did not end within $guard s; once more"
    done
    if [[ "$code" != 0 ]]; then
        echo "mpirun: exit code $code; the output was:"
        cat "$output"
        exit 1
    fi
    require_all_ok
}

# Rank 0 hosts the store; and without a word of where, on one host, the ranks find each other by themselves.
under_mpirun() {
    require_installed mpirun
    mpirun_all -x MASTER_ADDR=127.0.0.1 -x MASTER_PORT="$(free_port)"
    mpirun_all
}

under_srun() {
    local port processes=()
    port="$(free_port)"
    for ((rank = 0; rank < ranks; ++rank)); do
        env SLURM_PROCID="$rank" SLURM_NTASKS="$ranks" SLURM_LOCALID="$rank" SLURM_NTASKS_PER_NODE="$ranks" \
            MASTER_ADDR=localhost MASTER_PORT="$port" timeout "$guard" "$program" check-all >>"$output" &
        processes+=($!)
    done
    for process in "${processes[@]}"; do wait "$process" || { cat "$output"; exit 1; }; done
    require_all_ok
    # The same step without a word of where: the number of the job, here of this process, makes the port.
    : >"$output"
    processes=()
    for ((rank = 0; rank < ranks; ++rank)); do
        env SLURM_PROCID="$rank" SLURM_NTASKS="$ranks" SLURM_LOCALID="$rank" SLURM_JOB_ID="$$" SLURM_STEP_ID=0 \
            SLURM_STEP_NODELIST=localhost timeout "$guard" "$program" check-all >>"$output" &
        processes+=($!)
    done
    for process in "${processes[@]}"; do wait "$process" || { cat "$output"; exit 1; }; done
    require_all_ok
}

"under_$launcher"
