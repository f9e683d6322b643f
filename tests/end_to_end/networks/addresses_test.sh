#!/usr/bin/env bash
# One node with addresses of its own, in whatever way they are written: the store is reachable where the workers are
# told it is, and nowhere else. In namespaces of its own; skipped where these are not permitted.
set -euo pipefail

bin="$(realpath "$1")"
root="$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../..")"
self="$(realpath "${BASH_SOURCE[0]}")"
hang_guard=240

if [[ "${2:-}" != inside ]]; then
    isolated=(unshare --net --mount --uts --propagation private)
    [[ "$(id -u)" -eq 0 ]] || isolated+=(--user --map-root-user)
    if ! "${isolated[@]}" true 2>/dev/null; then
        echo "skipped: network namespaces are not permitted"
        exit 77
    fi
    exec "${isolated[@]}" bash "$self" "$bin" inside
fi

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "FAILED: $1"
    cat "$folder"/out "$folder"/err
    exit 1
}

# run EXPECTED_CODE WORDS…: ddprun with these words.
run() {
    local expected="$1" code=0
    shift
    timeout "$hang_guard" "$bin/ddprun" "$@" >"$folder/out" 2>"$folder/err" </dev/null || code=$?
    [[ "$code" -eq "$expected" ]] || fail "exit code $code, not $expected: ddprun $*"
}

says() { grep -qF -- "$2" "$folder/$1" || fail "$1 does not say: $2"; }

# As a stock Debian has it: the machine's own name is 127.0.1.1.
hostname gpu01
printf '127.0.0.1 localhost\n::1 localhost\n127.0.1.1 gpu01\n10.78.0.1 gpu01-net\n' >"$folder/hosts"
mount --bind "$folder/hosts" /etc/hosts
ip link set lo up
ip link add cable0 type veth peer name cable1
ip address add 10.78.0.1/24 dev cable0
ip address add fd00:78::1/64 dev cable0 nodad
ip link set cable0 up
ip link set cable1 up

train=("$bin/train_digits" --data "$root/apps/data/digits.csv" --epochs 2)
# What the store listens on, and what MASTER_ADDR stands for.
listeners=(sh -c 'ss -Hltn | awk "{ print \$4 }" | grep ":$MASTER_PORT\$" | sort; echo "MASTER_ADDR=$MASTER_ADDR"')

# listens_on FORM ADDRESS…: with --master-addr=FORM the store listens there and nowhere else, and workers train.
listens_on() {
    local form="$1" port address expected=""
    shift
    run 0 --master-addr="$form" "${listeners[@]}"
    says out "MASTER_ADDR=$form"
    port="$(sed -n 's/.*:\([0-9]*\)$/\1/p' "$folder/out" | head -n 1)"
    expected="$(for address in "$@"; do echo "$address:$port"; done | sort)"
    [[ "$(grep -v '^MASTER_ADDR=' "$folder/out")" == "$expected" ]] || fail "$form: not just $*"
    run 0 --nproc-per-node=2 --master-addr="$form" "${train[@]}"
    says out "parameters checked: bit-equal on 2 of 2 ranks"
}

listens_on 127.0.0.1 127.0.0.1
listens_on 10.78.0.1 10.78.0.1 127.0.0.1
listens_on fd00:78::1 '[fd00:78::1]' 127.0.0.1
listens_on ::1 '[::1]' 127.0.0.1
listens_on "$(hostname)" 127.0.1.1 127.0.0.1
listens_on 127.0.1.1 127.0.1.1 127.0.0.1
listens_on gpu01-net 10.78.0.1 127.0.0.1
run 0 "${listeners[@]}"
[[ "$(grep -c ':' "$folder/out")" -eq 1 ]] || fail "without --master-addr: more than loopback"

# Somebody else's address, one node or several; whose agents would wait for themselves.
for words in "--nnodes=1" "--nnodes=2"; do
    run 2 "$words" --master-addr=10.78.0.2 true
    says err "--master-addr 10.78.0.2: no address of this machine, which has 10.78.0.1 (cable0), fd00:78::1 (cable0)"
    [[ "$(wc -l <"$folder/err")" -eq 1 ]] || fail "more than one line"
done
says err "--node-rank"
run 2 --master-addr=no-such-host.invalid true
says err "--master-addr no-such-host.invalid: cannot be resolved on this machine"
run 0 --listen=any --master-addr=10.78.0.2 true
run 2 --listen=everywhere true

# A loopback address on another node is named as such.
run 69 --nnodes=2 --node-rank=1 --master-addr=gpu01 --rdzv-conf=join_timeout=4 true
says err "(127.0.1.1 is a loopback address, this machine itself)"

# A second node 0 on this machine is asked for its number.
"$bin/ddprun" --nnodes=2 --master-addr=10.78.0.1 --master-port=29507 true >/dev/null 2>"$folder/first" &
first=$!
until ss -Hltn | grep -q ':29507 '; do kill -0 "$first"; done
run 71 --nnodes=2 --master-addr=10.78.0.1 --master-port=29507 true
says err "held by pid $first"
says err "on another node of that job give its --node-rank"
kill -TERM "$first"
wait "$first" || true

echo "addresses: all passed"
