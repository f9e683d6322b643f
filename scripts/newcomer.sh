#!/usr/bin/env bash
# The first hour of a newcomer with ddprun, on this machine: what people type, what goes wrong around them, and
# whether the programs do and say the right thing. One line for each; exit code 1 if one of them failed.
set -euo pipefail

usage() {
    cat <<'USAGE'
usage: scripts/newcomer.sh [BIN_DIR]
  BIN_DIR   where ddprun, ddpctl and train_digits are (build/bin)
  Prints "ok", "FAILED" or "skipped: WHY" for each scene. Needs no privilege and leaves nothing behind.
USAGE
}

case "${1:-}" in -h | --help) usage; exit 0 ;; esac
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
bin="$(realpath "${1:-$root/build/bin}")"
folder="$(mktemp -d)"
hang_guard=120
failed=0
jobs_started=()

clean_up() {
    for pid in ${jobs_started[@]+"${jobs_started[@]}"}; do kill -KILL -- "-$pid" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap clean_up EXIT
# Nothing of the machine's own surroundings counts.
unset $(compgen -e | grep -E '^(SLURM_|OMPI_|PMI_|PMIX_|PET_|MASTER_)' || true)
export XDG_RUNTIME_DIR="$folder" TMPDIR="$folder"

ok() { echo "ok       $1"; }
skip() { echo "skipped: $1"; }
bad() {
    echo "FAILED   $1"
    sed 's/^/         | /' "$folder/out" "$folder/err" 2>/dev/null | tail -n 12
    failed=$((failed + 1))
}

# run COMMAND…: its output in $folder/out and $folder/err, its exit code in $code.
run() {
    code=0
    timeout "$hang_guard" "$@" >"$folder/out" 2>"$folder/err" </dev/null || code=$?
}

says() { grep -qE -- "$1" "$folder/err"; }

# begin NAME COMMAND…: in the background as a process group of its own, as a shell with job control does; pid in $pid.
begin() {
    local name="$1"
    shift
    set -m
    timeout --foreground "$hang_guard" "$@" >"$folder/$name.out" 2>"$folder/$name.err" </dev/null &
    pid=$!
    set +m
    jobs_started+=("$pid")
}

# until_true COMMAND…: until it succeeds, for as long as the guard; a shell has no event for what a file or /proc says.
until_true() {
    local deadline=$((SECONDS + hang_guard))
    until "$@" >/dev/null 2>&1; do
        [[ $SECONDS -lt $deadline ]] || return 1
        sleep 0.05 # see above
    done
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

train=("$bin/train_digits" --data "$root/apps/data/digits.csv" --epochs 2)

own_addresses() {
    local address tried=()
    for address in 127.0.0.1 ::1 "$(hostname)" $(hostname -I 2>/dev/null || true); do
        # A name or a family that this machine does not have is none of its addresses.
        getent ahosts "$address" >/dev/null || continue
        [[ $address != ::1 || -s /proc/net/if_inet6 ]] || continue
        run "$bin/ddprun" --nproc-per-node=2 --master-addr="$address" "${train[@]}"
        [[ $code -eq 0 ]] || { bad "one node, --master-addr=$address: exit code $code"; return; }
        tried+=("$address")
    done
    ok "one node trains under each of its addresses: ${tried[*]}"
}

foreign_address() {
    run "$bin/ddprun" --nnodes=2 --master-addr=192.0.2.1 true
    if [[ $code -eq 2 ]] && says 'no address of this machine, which has' && says -- '--node-rank'; then
        ok "node 0 with somebody else's address is refused at once"
    else
        bad "node 0 with somebody else's address: exit code $code"
    fi
}

forgotten_node_rank() {
    local port
    port="$(free_port)"
    begin first "$bin/ddprun" --nnodes=2 --master-addr=127.0.0.1 --master-port="$port" true
    until_true grep -q 'joined 1/2' "$folder/first.err" || true
    run "$bin/ddprun" --nnodes=2 --master-addr=127.0.0.1 --master-port="$port" true
    if [[ $code -eq 71 ]] && says 'give its --node-rank'; then
        ok "a forgotten --node-rank is asked for"
    else
        bad "a forgotten --node-rank: exit code $code"
    fi
    kill -TERM -- "-$pid"
    wait "$pid" || true
}

data_loader() {
    local name
    if ! python3 -c 'import torch' 2>/dev/null && ! /usr/bin/python3 -c 'import torch' 2>/dev/null; then
        skip "a preempted DataLoader: no python3 here has PyTorch"
        return
    fi
    local python=python3
    python3 -c 'import torch' 2>/dev/null || python=/usr/bin/python3
    cat >"$folder/train.py" <<'PYTHON'
import os
import signal
import sys

import torch

stop = False


def on_signal(number, frame):
    global stop
    stop = True


def main():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, on_signal)
    loader = torch.utils.data.DataLoader(torch.arange(1_000_000), batch_size=4, num_workers=3)
    told = False
    for batch in loader:
        if not told:
            print("training", flush=True)
            told = True
        if stop:
            with open(os.environ["CHECKPOINT"] + os.environ["RANK"], "w", encoding="utf-8") as file:
                file.write(str(batch))
            sys.exit(0)


if __name__ == "__main__":
    main()
PYTHON
    for name in TERM INT USR1; do
        # Also what the round before has printed: it would be taken for this one's.
        rm -f "$folder"/checkpoint* "$folder/loader.out"
        begin loader env PYTHON_EXEC="$python" CHECKPOINT="$folder/checkpoint" \
            "$bin/ddprun" --nproc-per-node=2 --requeue-on=USR1 "$folder/train.py"
        until_true eval "[[ \$(grep -c training '$folder/loader.out') -eq 2 ]]" || true
        kill -s "$name" "$(pgrep -P "$pid" -x ddprun)"
        code=0
        wait "$pid" || code=$?
        if [[ $code -ne 75 || ! -s "$folder/checkpoint0" || ! -s "$folder/checkpoint1" ]]; then
            cp "$folder/loader.err" "$folder/err"
            bad "a DataLoader preempted by $name: exit code $code, saved: $(ls "$folder" | grep -c '^checkpoint')"
            return
        fi
    done
    ok "a training with DataLoader workers saves on TERM, INT and USR1; exit code 75"
}

foreign_launchers() {
    local variable
    for variable in SLURM_STEP_NUM_TASKS SLURM_STEP_NUM_NODES OMPI_COMM_WORLD_SIZE PMI_SIZE; do
        run env "$variable=2" "$bin/ddprun" true
        [[ $code -eq 2 && $(wc -l <"$folder/err") -eq 1 ]] && says -- '--nnodes' ||
            { bad "$variable=2: exit code $code"; return; }
        run env "$variable=2" "$bin/ddprun" --standalone true
        [[ $code -eq 0 ]] || { bad "$variable=2 --standalone: exit code $code"; return; }
    done
    if command -v mpirun >/dev/null; then
        run env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
            mpirun --oversubscribe -np 2 "$bin/ddprun" true
        [[ $code -ne 0 ]] || { bad "mpirun -np 2 ddprun: two jobs of one, exit code 0"; return; }
    fi
    ok "under srun and mpirun no job of one begins by itself"
}

result_file() {
    run "$bin/ddprun" --result-file="$folder/no/such/folder/result.json" touch "$folder/began"
    [[ $code -eq 2 && ! -e "$folder/began" ]] && says 'result-file' ||
        { bad "a result file that cannot be: exit code $code"; return; }
    run "$bin/ddprun" --result-file=/dev/full true
    [[ $code -eq 71 ]] && says 'result-file' || { bad "a result file on a full disk: exit code $code"; return; }
    run "$bin/ddprun" --result-file=/dev/full sh -c 'exit 5'
    [[ $code -eq 5 ]] || { bad "a failed job and a full disk: exit code $code"; return; }
    ok "a result file that cannot be written is told before anything starts, a full disk at the end"
}

state_of() { ps -o stat= -p "$1" | cut -c 1; }

ctrl_z() {
    local launcher worker
    begin stopped "$bin/ddprun" sh -c 'echo "$$"; while :; do :; done'
    until_true test -s "$folder/stopped.out" || true
    launcher="$(pgrep -P "$pid" -x ddprun)"
    worker="$(head -n 1 "$folder/stopped.out")"
    kill -TSTP "$launcher"
    until_true eval "[[ \$(state_of $launcher) == T && \$(state_of $worker) == T ]]" ||
        { bad "Ctrl-Z: the launcher is $(state_of "$launcher"), the worker $(state_of "$worker")"; return; }
    kill -CONT "$launcher"
    until_true eval "[[ \$(state_of $launcher) != T && \$(state_of $worker) != T ]]" ||
        { bad "fg: the launcher is $(state_of "$launcher"), the worker $(state_of "$worker")"; return; }
    kill -TERM "$launcher"
    wait "$pid" || true
    ok "Ctrl-Z stops the workers, too, and fg goes on"
}

side_by_side() {
    local port other first_code=0 second_code=0
    begin one "$bin/ddprun" --nproc-per-node=2 "${train[@]}"
    local one="$pid"
    begin two "$bin/ddprun" --nproc-per-node=2 "${train[@]}"
    wait "$one" || first_code=$?
    wait "$pid" || second_code=$?
    [[ $first_code -eq 0 && $second_code -eq 0 ]] || { bad "two jobs at once: $first_code, $second_code"; return; }

    port="$(free_port)"
    begin one "$bin/ddprun" --nnodes=2 --master-addr=127.0.0.1 --master-port="$port" echo mine
    one="$pid"
    run "$bin/ddprun" --nnodes=2 --node-rank=1 --master-addr=127.0.0.1 --master-port="$port" printf theirs
    other=$code
    [[ $other -eq 77 ]] && says 'runs "printf theirs"' && says 'runs "echo mine"' ||
        { bad "another job's agent: exit code $other"; return; }
    run "$bin/ddprun" --nnodes=2 --node-rank=1 --master-addr=127.0.0.1 --master-port="$port" echo mine
    wait "$one" || first_code=$?
    [[ $code -eq 0 && $first_code -eq 0 ]] || { bad "after a stranger was refused: $first_code, $code"; return; }
    grep -q 'refused an agent' "$folder/one.err" || { bad "node 0 does not say whom it refused"; return; }
    ok "two jobs side by side stay two"
}

own_addresses
foreign_address
forgotten_node_rank
data_loader
foreign_launchers
result_file
ctrl_z
side_by_side
[[ $failed -eq 0 ]]
