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

status=0
two_nodes "--master-addr=10.77.0.1 --nproc-per-node=2 '$bin/worker_stub' print-env" \
          "--master-addr=node0 --nproc-per-node=1 '$bin/worker_stub' print-env" || status=$?
[[ $status -ne 77 ]] || exit 77
[[ $status -eq 0 ]] || fail "addresses and names: exit code $status"
expect node0 "MASTER_ADDR=10.77.0.1"
expect node1 "MASTER_ADDR=node0"
expect node1 "RANK=2"
expect node1 "WORLD_SIZE=3"
# Gloo, NCCL and TensorPipe shall use the interface that carries the rendezvous.
for node in 0 1; do
    expect "node$node" "GLOO_SOCKET_IFNAME=cable$node"
    expect "node$node" "NCCL_SOCKET_IFNAME==cable$node"
    expect "node$node" "TP_SOCKET_IFNAME=cable$node"
done

# The same words on both nodes: the one that has the address hosts, and is node 0.
status=0
hosts="'$bin/ddprun' --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=10.77.0.1:29411 sh -c 'echo rank \$RANK on \$(hostname)'"
timeout "$hang_guard" bash "$root/scripts/two_nodes.sh" "$hosts >'$folder/node0.log' 2>&1" \
    "$hosts >'$folder/node1.log' 2>&1" || status=$?
[[ $status -eq 0 ]] || fail "the same words on both nodes: exit code $status"
expect node0 "rank 0 on node0"
expect node1 "rank 1 on node1"

status=0
two_nodes "--master-addr=node0 --allow-different sh -c 'exec sleep 1000'" \
          "--master-addr=node0 sh -c 'exit 5'" || status=$?
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

# With a second network between the nodes, --net decides which of them the workers' own connections take. The kernel
# still lists those that have just ended, with addresses in hexadecimal.
# shellcheck disable=SC2016 # expanded on the node
prepare='ip address add 10.88.0.$((node + 1))/24 dev cable$node'
conclude='cat /proc/net/tcp'
bench="'$bin/ddpbench' all_reduce -b 1M -e 1M -n 2"
for net in 10.88.0.0/16 10.77.0.0/16; do
    status=0
    two_nodes "--master-addr=10.77.0.1 --nproc-per-node=2 --net=$net $bench" \
              "--master-addr=10.77.0.1 --nproc-per-node=2 --net=$net $bench" || status=$?
    [[ $status -eq 0 ]] || fail "all_reduce over $net: exit code $status"
    expect node0 "# Out of bounds values : 0 OK"
    found="$(cat "$folder"/node?.log | grep -c '0[12]00580A:' || true)"
    [[ $net == 10.88.* && $found -gt 0 || $net == 10.77.* && $found -eq 0 ]] ||
        fail "--net=$net: $found connections in 10.88.0.0/16"
done

status=0
two_nodes "--master-addr=10.77.0.1 --join-timeout=6 --net=10.88.0.0/16 $bench" \
          "--master-addr=10.77.0.1 --join-timeout=6 --net=10.99.0.0/16 $bench" || status=$?
[[ $status -eq 69 ]] || fail "a network that node 1 has not: exit code $status, not 69"
expect node1 "ddprun: --net 10.99.0.0/16: no address of this node is in it, which has 10.77.0.2 (cable1), 10.88.0.2 (cable1)"

# The cable is cut, while node 1's worker runs, and when it has ended. Neither agent waits for the other, and neither
# claims to know what is left over there.
prepare=true
conclude=true
mkfifo "$folder/runs"
cat >"$folder/cut.sh" <<'WORKER'
# usage: cut.sh FIFO COMMAND…: rank 1 becomes COMMAND; rank 0 cuts the cable when rank 1 runs, or has ended.
fifo="$1"
shift
if [ "$RANK" = 1 ]; then
    echo $$ >"$fifo"
    exec "$@"
fi
read -r other <"$fifo"
# Until its agent has said that rank 1 runs, it has more time than the limit; no event shows that it has.
sleep 1
[ "$1" != true ] || tail --pid="$other" -f /dev/null
ip link set cable0 down
[ "$1" = true ] || exec sleep 1000
WORKER
for command in "sleep 1000" true; do
    status=0
    rm -f "$folder"/launcher*
    words="--master-addr=10.77.0.1 --verbose --log-file='$folder/launcher'\$node --grace=1 sh '$folder/cut.sh' '$folder/runs' $command"
    two_nodes "$words" "$words" || status=$?
    [[ $status -eq 69 ]] || fail "a cut cable, $command: exit code $status, not 69"
    expect node1 "node 0 (10.77.0.1) was lost"
    # Both nodes' processes are this machine's, so one may see what the other is about to stop.
    expect node1 ", unknown on the other node"
    [[ $command == true ]] || expect node1 "node 0 (10.77.0.1) lost: no heartbeat for 5 s"
    [[ $command == true ]] || expect node0 "node 1 (node1) lost: no heartbeat for 5 s"
    [[ $command == true ]] || expect node0 ", unknown on node 1 (node1)"
    [[ $command == true ]] || in_this_order "$folder/launcher1" "rank 1, pid .* stopped by ddprun" \
        "$folder/launcher0" "node 1 (node1) lost"
done

# A network that is gone for 3 seconds is no news, whatever the heartbeats were about to do.
cat >"$folder/blip.sh" <<'WORKER'
# usage: blip.sh FIFO: rank 0 takes the cable away for a while, rank 1 ends when it is back.
if [ "$RANK" = 0 ]; then
    for _ in 1 2; do
        ip link set cable0 down
        # No event is waited for: how long the network is gone, and is back, is what is tested.
        sleep 3
        ip link set cable0 up
        sleep 2
    done
    echo back >"$1"
else
    read -r word <"$1"
fi
WORKER
status=0
words="--master-addr=10.77.0.1 sh '$folder/blip.sh' '$folder/runs'"
two_nodes "$words" "$words" || status=$?
[[ $status -eq 0 ]] || fail "a network that was gone for 3 s: exit code $status"

# A job that goes on with one node does so when the other, which nobody can ask, has ended its workers. These take the
# whole grace.
cat >"$folder/deaf.sh" <<'WORKER'
# usage: deaf.sh FIFO: of two, rank 0 cuts the cable when rank 1 is deaf to SIGTERM; alone it ends.
[ "$WORLD_SIZE" = 2 ] || exit 0
if [ "$RANK" = 1 ]; then
    trap '' TERM
    echo deaf >"$1"
    exec sleep 1000
fi
read -r word <"$1"
# Until its agent has said that rank 1 runs, it has more time than the limit; no event shows that it has.
sleep 1
ip link set cable0 down
exec sleep 1000
WORKER
rm -f "$folder"/launcher*
words="--verbose --log-file='$folder/launcher'\$node --heartbeat=2 --grace=3 sh '$folder/deaf.sh' '$folder/runs'"
elastic="--nnodes=1:2 --master-addr=10.77.0.1"
timeout "$hang_guard" bash "$root/scripts/two_nodes.sh" \
    "node=0; '$bin/ddprun' $elastic --node-rank=0 $words >'$folder/node0.log' 2>&1; echo \$? >'$folder/code0'" \
    "node=1; '$bin/ddprun' $elastic --node-rank=1 $words >'$folder/node1.log' 2>&1; echo \$? >'$folder/code1'" ||
    fail "a cut job of 1 or 2 nodes"
[[ $(cat "$folder/code0") -eq 0 ]] || fail "the node that goes on: exit code $(cat "$folder/code0")"
[[ $(cat "$folder/code1") -eq 69 ]] || fail "the node that is cut off: exit code $(cat "$folder/code1")"
expect node0 "node 1 (node1) was lost; another round with 1 node (resize 1) follows in"
in_this_order "$folder/launcher1" "rank 1, pid .*: signal 9" "$folder/launcher0" "round 1 of job"

echo "two nodes: all passed"
