#!/usr/bin/env bash
# Trains on the real digits as a user would: alone, under ddprun, and by hand; with good and with bad input.
#
# usage: train_digits_test.sh BIN_DIR
set -euo pipefail

bin="$1"
data="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/apps/data/digits.csv"
folder="$(mktemp -d)"
background=()
hang_guard=240 # seconds; never reached when the programs are right

clean_up() {
    for pid in "${background[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap clean_up EXIT

fail() {
    echo "FAILED: $1"
    for file in "$folder"/out "$folder"/err; do
        [[ -f "$file" ]] && { echo "--- $(basename "$file"):"; tail -n 15 "$file"; }
    done
    exit 1
}

# run EXPECTED_CODE COMMAND…: stdout and stderr go to $folder/out and $folder/err.
run() {
    local expected="$1" code=0
    shift
    timeout "$hang_guard" "$@" >"$folder/out" 2>"$folder/err" </dev/null || code=$?
    [[ "$code" -eq "$expected" ]] || fail "exit code $code, not $expected: $*"
}

train=("$bin/train_digits" --data "$data")

# says FILE TEXT: the file holds the text, literally.
says() { grep -qF -- "$2" "$folder/$1" || fail "$1 does not say: $2"; }

accuracy() { sed -n 's/^test accuracy \([0-9.]*\) .*/\1/p' "$folder/out"; }

accurate() {
    awk -v accuracy="$(accuracy)" 'BEGIN { exit !(accuracy >= 0.95) }' || fail "test accuracy '$(accuracy)' < 0.95"
}

losses() { sed -n 's/^epoch .*loss \([0-9.]*\) .*/\1/p' "$folder/out"; }

# The losses of two runs are equal within rounding, epoch by epoch, and there are some.
same_losses() {
    paste "$1" "$2" | awk '
        NF != 2 { exit 1 }
        { difference = $1 > $2 ? $1 - $2 : $2 - $1 }
        difference > 0.0001 * $1 { exit 1 }
        END { if (NR == 0) exit 1 }' || { paste "$1" "$2"; fail "the losses of $1 and $2 differ"; }
}

# --- The main job, and the same training with other numbers of workers.

for workers in 1 2 4; do
    run 0 "$bin/ddprun" --nproc-per-node "$workers" "${train[@]}"
    says out "$workers worker"
    says out "1438 images to train on, 359 to test"
    says out "bit-equal on $workers of $workers ranks"
    accurate
    losses >"$folder/losses.$workers"
    echo "$workers workers: $(grep '^trained' "$folder/out"), test accuracy $(accuracy)"
done
[[ "$(wc -l <"$folder/losses.1")" -eq 60 ]] || fail "not one loss for each of the 60 epochs"
same_losses "$folder/losses.1" "$folder/losses.2"
same_losses "$folder/losses.1" "$folder/losses.4"

# A batch that no number of workers divides, without a launcher and with one.
run 0 "${train[@]}" --epochs 3 --batch-size 47
losses >"$folder/losses.uneven"
run 0 "$bin/ddprun" --nproc-per-node 3 "${train[@]}" --epochs 3 --batch-size 47
losses >"$folder/losses.uneven.3"
same_losses "$folder/losses.uneven" "$folder/losses.uneven.3"

# --- Saving: the parameters as they are in memory, the same ones each time.

mkdir "$folder/models"
for file in one two; do
    run 0 "$bin/ddprun" --nproc-per-node 2 "${train[@]}" --quiet --epochs 5 --save "$folder/models/$file"
    says out "saved $folder/models/$file"
done
[[ "$(ls "$folder/models" | tr '\n' ' ')" == "one two " ]] || fail "more than the models was left: $(ls "$folder/models")"
[[ "$(stat -c %s "$folder/models/one")" -eq $((4 * 9610)) ]] || fail "not four bytes for each parameter were saved"
cmp "$folder/models/one" "$folder/models/two" || fail "a training is not repeatable"
grep -q '^epoch' "$folder/out" && fail "--quiet shows progress"

# The flag matters on rank 0 only.
run 0 "$bin/ddprun" --nproc-per-node 2 bash -c \
    "[[ \$RANK == 0 ]] && set -- --save '$folder/models/again'; exec '${train[0]}' --data '$data' --epochs 1 \"\$@\"" bash
[[ -s "$folder/models/again" ]] || fail "rank 0 did not save when it alone was asked to"

# --- Bad input: 2, and one line that names it.

# bad TEXT ARGUMENTS…
bad() {
    local text="$1"
    shift
    run 2 "$bin/train_digits" "$@"
    [[ "$(wc -l <"$folder/err")" -eq 1 ]] || fail "not one line on stderr: $*"
    [[ ! -s "$folder/out" ]] || fail "something on stdout: $*"
    says err "$text"
}

sed '700s/^[0-9]*/77/' "$data" >"$folder/malformed.csv"
head -n 3 "$data" >"$folder/short.csv"
bad "--data is required"
bad "--data: cannot read '$folder/none.csv': No such file" --data "$folder/none.csv"
bad "--data: $folder/malformed.csv:700: not 64 pixels from 0 to 16 and a digit" --data "$folder/malformed.csv"
bad "$folder/short.csv: holds 3 images" --data "$folder/short.csv"
bad "--epochs: '0' is not a number from 1" --data "$data" --epochs 0
bad "--lr: 'fast' is not a number" --data "$data" --lr fast
bad "--sede" --data "$data" --sede 3

run 2 "$bin/ddprun" --nproc-per-node 2 "$bin/train_digits" --data "$folder/malformed.csv"
says err "$folder/malformed.csv:700: not 64 pixels"

# --- The world fails: 1, and the cause.

run 1 "$bin/ddprun" --nproc-per-node 3 bash -c \
    "exec '$bin/train_digits' --data '$data' --seed \$((RANK == 1))"
says err "the training flags are not equal on all ranks: rank 1 differs"

sed '700s/^[0-9]*/1/' "$data" >"$folder/other.csv"
cp "$data" "$folder/same.csv"
run 1 "$bin/ddprun" --nproc-per-node 3 bash -c \
    "if [[ \$RANK == 2 ]]; then data=other; else data=same; fi; exec '$bin/train_digits' --data '$folder'/\$data.csv"
says err "the images (--data) are not equal on all ranks: rank 2 differs"

run 1 "$bin/ddprun" --nproc-per-node 2 "${train[@]}" --epochs 1 --save "$folder/no/model"
says err "rank 0: --save: cannot write '$folder/no/model': No such file"

run 1 "${train[@]}" --lr 1e20
says err "rank 0: the loss is no longer a number in epoch 1: try a smaller --lr than 1e+20"

code=0
"${train[@]}" --epochs 1 >/dev/full 2>"$folder/err" || code=$?
[[ "$code" -eq 1 ]] || fail "exit code $code, not 1, with a full standard output"
says err "standard output cannot be written"

# --- A worker dies in the middle. By hand, rank 0 hosts the store; it waits for nothing but the other's death.

port="$(/usr/bin/env python3 -c '
import socket
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    print(free.getsockname()[1])')"
mkfifo "$folder/progress"
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" WORLD_SIZE=2
RANK=1 "${train[@]}" --epochs 100000 >/dev/null 2>"$folder/err.1" &
victim=$!
RANK=0 "${train[@]}" --epochs 100000 >"$folder/progress" 2>"$folder/err" &
survivor=$!
unset MASTER_ADDR MASTER_PORT WORLD_SIZE
background=("$victim" "$survivor")
exec 3<"$folder/progress"
line=""
until [[ "$line" == epoch* ]]; do
    read -r -t "$hang_guard" line <&3 || fail "no progress of two workers started by hand"
done
kill -KILL "$victim"
wait "$victim" 2>/dev/null || true # without bash's own line about it
timeout "$hang_guard" cat <&3 >/dev/null || fail "rank 0 does not end after the death of rank 1"
code=0
wait "$survivor" || code=$?
exec 3<&-
background=()
[[ "$code" -eq 1 ]] || fail "rank 0 ended with $code, not 1, after the death of rank 1"
grep -q '^train_digits: rank 0: .*rank 1' "$folder/err" || fail "rank 0 does not name rank 1"
echo "after the death of rank 1: $(head -n 1 "$folder/err")"

echo "train_digits: all passed"
