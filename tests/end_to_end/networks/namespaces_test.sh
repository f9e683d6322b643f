#!/usr/bin/env bash
# Two nodes with their own addresses, names and network: what loopback cannot show.
set -euo pipefail
# shellcheck source=tests/end_to_end/networks/namespaces_support.sh
source "$(dirname "${BASH_SOURCE[0]}")/namespaces_support.sh"

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

echo "two nodes: all passed"
