#!/usr/bin/env bash
# Two nodes whose cable is cut: for good, for a moment, and where one of them goes on.
set -euo pipefail
# shellcheck source=tests/end_to_end/networks/namespaces_support.sh
source "$(dirname "${BASH_SOURCE[0]}")/namespaces_support.sh"

# The cable is cut, while node 1's worker runs, and when it has ended. Neither agent waits for the other, and neither
# claims to know what is left over there.
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
sleep 3
[ "$1" != true ] || tail --pid="$other" -f /dev/null
ip link set cable0 down
[ "$1" = true ] || exec sleep 1000
WORKER
for command in "sleep 1000" true; do
    status=0
    rm -f "$folder"/launcher*
    words="--master-addr=10.77.0.1 --verbose --log-file='$folder/launcher'\$node --heartbeat=6 --grace=1 sh '$folder/cut.sh' '$folder/runs' $command"
    two_nodes "$words" "$words" || status=$?
    [[ $status -eq 69 ]] || fail "a cut cable, $command: exit code $status, not 69"
    expect node1 "node 0 (10.77.0.1) was lost"
    # Both nodes' processes are this machine's, so one may see what the other is about to stop.
    expect node1 ", unknown on the other node"
    [[ $command == true ]] || expect node1 "node 0 (10.77.0.1) lost: no heartbeat for 6 s"
    [[ $command == true ]] || expect node0 "node 1 (node1) lost: no heartbeat for 6 s"
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
sleep 3
ip link set cable0 down
exec sleep 1000
WORKER
rm -f "$folder"/launcher*
words="--verbose --log-file='$folder/launcher'\$node --heartbeat=6 --grace=3 sh '$folder/deaf.sh' '$folder/runs'"
elastic="--nnodes=1:2 --master-addr=10.77.0.1"
timeout "$hang_guard" bash "$root/scripts/two_nodes.sh" \
    "node=0; '$bin/ddprun' $elastic --node-rank=0 $words >'$folder/node0.log' 2>&1; echo \$? >'$folder/code0'" \
    "node=1; '$bin/ddprun' $elastic --node-rank=1 $words >'$folder/node1.log' 2>&1; echo \$? >'$folder/code1'" ||
    fail "a cut job of 1 or 2 nodes"
[[ $(cat "$folder/code0") -eq 0 ]] || fail "the node that goes on: exit code $(cat "$folder/code0")"
[[ $(cat "$folder/code1") -eq 69 ]] || fail "the node that is cut off: exit code $(cat "$folder/code1")"
expect node0 "node 1 (node1) was lost; another round with 1 node (resize 1) follows in"
in_this_order "$folder/launcher1" "rank 1, pid .*: signal 9" "$folder/launcher0" "round 1 of job"

echo "a cut cable: all passed"
