#!/usr/bin/env bash
# Sourced with BIN_DIR by the tests of two nodes that have their own addresses, names and network. They are skipped where
# namespaces are not permitted (two_nodes.sh prints the reason).
set -euo pipefail

bin="$(realpath "$1")"
root="$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../..")"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
hang_guard=120

fail() {
    echo "FAILED: $1"
    cat "$folder"/*.log
    exit 1
}

# two_nodes NODE_0_WORDS NODE_1_WORDS: ddprun on both; output in node0.log and node1.log; returns the larger exit code.
# Before it, each node runs `prepare`; after it, `conclude`, whose output is logged, too.
prepare=true
conclude=true
two_nodes() {
    timeout "$hang_guard" bash "$root/scripts/two_nodes.sh" "$(on_node 0 "$1")" "$(on_node 1 "$2")"
}

on_node() {
    echo "node=$1; $prepare
          { '$bin/ddprun' --nnodes=2 --node-rank=$1 $2; status=\$?; $conclude; } >'$folder/node$1.log' 2>&1
          exit \$status"
}

expect() { # expect FILE TEXT: the text stands in the node's output
    grep -qF -- "$2" "$folder/$1.log" || fail "$1 does not say: $2"
}

# in_this_order FILE TEXT FILE TEXT: the line of the one log was written before that of the other.
in_this_order() {
    local first second
    first="$(grep -m 1 -- "$2" "$1")" || fail "$1 does not say: $2"
    second="$(grep -m 1 -- "$4" "$3")" || fail "$3 does not say: $4"
    [[ "$first" < "$second" ]] || fail "not in this order: $first / $second"
}
