#!/usr/bin/env bash
# Two nodes with their own addresses, names and network: what loopback cannot show. Skipped where namespaces are not
# permitted (two_nodes.sh prints the reason).
set -euo pipefail

bin="$(realpath "$1")"
root="$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
hang_guard=120

fail() {
    echo "FAILED: $1"
    cat "$folder"/*.log
    exit 1
}

# two_nodes NODE_0_WORDS NODE_1_WORDS: ddprun on both; output in node0.log and node1.log; returns the larger exit code.
two_nodes() {
    timeout "$hang_guard" bash "$root/scripts/two_nodes.sh" \
        "'$bin/ddprun' --nnodes=2 --node-rank=0 $1 >'$folder/node0.log' 2>&1" \
        "'$bin/ddprun' --nnodes=2 --node-rank=1 $2 >'$folder/node1.log' 2>&1"
}

expect() { # expect FILE TEXT: the text stands in the node's output
    grep -qF -- "$2" "$folder/$1.log" || fail "$1 does not say: $2"
}

status=0
two_nodes "--master-addr=10.77.0.1 --nproc-per-node=2 '$bin/worker_stub' print-env" \
          "--master-addr=node0 --nproc-per-node=1 '$bin/worker_stub' print-env" || status=$?
[[ $status -ne 77 ]] || exit 77
[[ $status -eq 0 ]] || fail "addresses and names: exit code $status"
expect node0 "MASTER_ADDR=10.77.0.1"
expect node1 "MASTER_ADDR=node0"
expect node1 "RANK=2"
expect node1 "WORLD_SIZE=3"

status=0
two_nodes "--master-addr=node0 sh -c 'exec sleep 1000'" "--master-addr=node0 sh -c 'exit 5'" || status=$?
[[ $status -eq 5 ]] || fail "a failure on node 1: exit code $status, not 5"
expect node0 "rank 1 (local rank 0) on node 1 (node1)"
expect node1 "exit code 5"

status=0
two_nodes "--master-addr=node0 --rdzv-conf=join_timeout=4 true" \
          "--master-addr=10.99.0.1 --rdzv-conf=join_timeout=4 true" || status=$?
[[ $status -eq 69 ]] || fail "no route: exit code $status, not 69"
expect node1 "Network is unreachable"
expect node0 "joined 1/2, missing node 1"

status=0
two_nodes "--master-addr=10.77.0.1 --nproc-per-node=2 '$bin/train_digits' --data '$root/apps/data/digits.csv' --epochs 3" \
          "--master-addr=10.77.0.1 --nproc-per-node=2 '$bin/train_digits' --data '$root/apps/data/digits.csv' --epochs 3" ||
    status=$?
[[ $status -eq 0 ]] || fail "training on two nodes: exit code $status"
expect node0 "accuracy"

echo "two nodes: all passed"
