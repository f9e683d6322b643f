#!/usr/bin/env bash
# Two "machines" on this one: each command line runs in a network namespace of its own, with its own address, host
# name and /etc/hosts, joined by a virtual cable. Everything is private to this script and gone when it ends.
set -euo pipefail

usage() {
    cat <<'USAGE'
usage: scripts/two_nodes.sh 'COMMAND LINE FOR NODE 0' 'COMMAND LINE FOR NODE 1'
  node 0 is 10.77.0.1 and named node0, node 1 is 10.77.0.2 and named node1.
  Exit code: the larger of the two commands'; 77 where namespaces are not permitted.
USAGE
}

not_permitted() {
    echo "skipped: two_nodes.sh needs network namespaces: $1" >&2
    exit 77
}

# As an ordinary user the namespaces need a user namespace, in which that user is root.
isolated=(unshare --net --mount --uts --propagation private)
[[ "$(id -u)" -eq 0 ]] || isolated+=(--user --map-root-user)

# The inner run: we are in node 0's namespaces. Node 1 is a process that holds its own, and waits for the end of its input.
join_nodes() {
    local folder="$1" first="$2" second="$3" statuses=(0 0) node_1 hold
    hostname node0
    printf '127.0.0.1 localhost\n10.77.0.1 node0\n10.77.0.2 node1\n' >"$folder/hosts"
    mount --bind "$folder/hosts" /etc/hosts

    mkfifo "$folder/ready" "$folder/hold"
    # shellcheck disable=SC2016 # $0 is for the inner shell
    unshare --net --uts bash -c 'hostname node1; echo ready >"$0/ready"; exec cat "$0/hold"' "$folder" >/dev/null &
    node_1=$!
    read -r <"$folder/ready"
    exec {hold}>"$folder/hold"

    ip link add cable0 type veth peer name cable1
    ip link set cable1 netns "$node_1"
    ip address add 10.77.0.1/24 dev cable0
    ip link set cable0 up
    ip link set lo up
    nsenter --target "$node_1" --net sh -c \
        'ip address add 10.77.0.2/24 dev cable1; ip link set cable1 up; ip link set lo up'

    # Each command leads a process group, so that stopping it reaches what it started.
    set -m
    bash -c "$first" </dev/null {hold}>&- &
    local job_0=$!
    nsenter --target "$node_1" --net --uts bash -c "$second" </dev/null {hold}>&- &
    local job_1=$!
    set +m
    # A signal goes to both, and the commands' own ends are waited for.
    local name
    for name in INT TERM HUP; do
        # shellcheck disable=SC2064 # the jobs are known now
        trap "kill -s $name -- -$job_0 -$job_1 2>/dev/null || true" "$name"
    done
    # What the commands left in their groups goes too.
    trap 'kill -s KILL -- -'"$job_0"' -'"$job_1"' 2>/dev/null || true' EXIT
    wait_for_end "$job_0" && statuses[0]=0 || statuses[0]=$?
    wait_for_end "$job_1" && statuses[1]=0 || statuses[1]=$?
    exec {hold}>&-
    wait "$node_1"
    return $((statuses[0] > statuses[1] ? statuses[0] : statuses[1]))
}

# `wait` returns early when a trapped signal arrives; the process is then still there.
wait_for_end() {
    local status
    while true; do
        wait "$1" && status=0 || status=$?
        kill -0 "$1" 2>/dev/null || return "$status"
    done
}

if [[ "${1:-}" == --inside && $# -eq 4 ]]; then
    join_nodes "$2" "$3" "$4"
    exit
fi

case "${1:-}" in -h | --help) usage; exit 0 ;; esac
[[ $# -eq 2 ]] || { usage >&2; exit 2; }

for tool in unshare nsenter ip; do
    command -v "$tool" >/dev/null || not_permitted "the program $tool is missing (Debian packages util-linux, iproute2)"
done
if ! refused="$("${isolated[@]}" ip link add probe0 type veth peer name probe1 2>&1)"; then
    not_permitted "${refused//$'\n'/; }"
fi

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
# Under job control the inner run does not start with SIGINT ignored, and a terminal's Ctrl-C comes here only.
set -m
"${isolated[@]}" bash "${BASH_SOURCE[0]}" --inside "$folder" "$1" "$2" </dev/null &
inner=$!
set +m
for name in INT TERM HUP; do
    # shellcheck disable=SC2064 # the pid is known now
    trap "kill -s $name $inner 2>/dev/null || true" "$name"
done
wait_for_end "$inner"
