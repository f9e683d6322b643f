#!/bin/busybox sh
# shellcheck shell=dash
# The first program of the system that scripts/arm.sh boots: runs the lines of /tests, each a name and a command, and powers off.
# Its second self is the child of an init that takes what the tests leave without a parent.
set -euo pipefail
if [ $$ -eq 1 ]; then
    /bin/busybox mkdir -p /proc /sys /dev /tmp /root /etc /run /var/tmp
    /bin/busybox --install -s /bin 2>/dev/null || true
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    mount -t devtmpfs devtmpfs /dev
    mkdir -p /dev/pts /dev/shm
    mount -t devpts devpts /dev/pts
    mount -t tmpfs tmpfs /dev/shm
    mount -t tmpfs tmpfs /tmp
    mount -t tmpfs tmpfs /run
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    chmod 1777 /dev/shm /tmp /var/tmp
    hostname arm
    printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n' >/etc/passwd
    printf 'root:x:0:\nnogroup:x:65534:\n' >/etc/group
    printf '127.0.0.1 localhost arm\n::1 localhost\n' >/etc/hosts
    ip link set lo up
    insmod /modules/inet_diag.ko
    insmod /modules/tcp_diag.ko
    insmod /modules/unix_diag.ko
    ln -sf /proc/self/fd /dev/fd
    ln -sf fd/1 /dev/stdout
    ln -sf fd/2 /dev/stderr
    printf '::sysinit:/init\n' >/etc/inittab
    exec /bin/busybox init
fi

export HOME=/root PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 TERM=dumb
cd "$HOME"
while read -r name command; do
    echo "=== begin $name"
    start=$(date +%s)
    status=0
    # For its quotes.
    eval "timeout -s KILL 1800 $command" </dev/null >/run/log 2>&1 || status=$?
    cat /run/log
    echo
    echo "=== end $name $status $(($(date +%s) - start))"
done </tests
sync
poweroff -f
