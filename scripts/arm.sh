#!/usr/bin/env bash
# Builds ddprun for aarch64 and runs its tests there: in a whole system under qemu, of Debian's own arm64 kernel and programs, on
# whatever machine this is. User mode would not do: it knows no child sub-reaper. Of the kernel's modules it gets those by which
# the kernel tells whose a connection is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'USAGE'
usage: scripts/arm.sh [--short] [--only NAMES] [--build-only] [--no-build]
  --short       the tests that take little time under qemu
  --only NAMES  these tests (an extended regular expression of whole names)
  --build-only  builds what is to be tested and gets the system for it, and ends
  --no-build    with what build-arm64 has
Prints what the tests say, a table of them, the minutes, and: N passed, N failed[, N skipped].
USAGE
}

short='' only='.*' build=yes run=yes
while [[ $# -gt 0 ]]; do
    case "$1" in
        --short) short=yes; shift ;;
        --only) only="${2:?--only needs names}"; shift 2 ;;
        --build-only) run=''; shift ;;
        --no-build) build=''; shift ;;
        -h | --help) usage; exit 0 ;;
        *) echo "arm.sh: unknown argument '$1' (see --help)" >&2; exit 2 ;;
    esac
done

# without NAMES: all cases of a test but these, as Catch2 takes it.
without() { printf "'"; printf '~"%s"' "$@"; printf "'"; }

# The tests, one a line: whether they are of the short list, of the long one or of both; the name; what runs, where that is no
# program of this name. The short list leaves out what computes or waits for seconds on the machine that emulates.
tests="\
short store_test BIN/store_test 'wire:*,store state:*,store host:*,file store:*'
long store_test
both worker_env_test
both collectives_unit_test
short shm_test BIN/shm_test $(without "shared memory gives*" "every operation*" "any sequence*" "both types*" "operations in place*" \
    "buffers of the communicator*" "ranks that share*" "of ranks that share*" "32 ranks*")
long shm_test
short message_test BIN/message_test $(without "messages of every size*" "a started receive*" "what runs out*")
long message_test
short rendezvous_test BIN/rendezvous_test $(without "a client*" "a hundred*" "a job*" "whatever the network*" "likewise*" \
    "simulated networks*" "whoever dies*" "nodes that come*")
long rendezvous_test
short launcher_test BIN/launcher_test $(without "limit timer*" "how 100*" "two sockets*" "*NUMA*" "the caches*" "unbound*" \
    "only the CPUs*" "exclusive*" "CPUs, memory*")
long launcher_test
short look_test BIN/look_test 'native stacks*,waits: the numbers*'
long look_test BIN/look_test $(without "a stop:*")
long watch_test
short contraction BIN/train_digits_unit_test [mlp]
both shared_memory bash END/peer_launchers_test.sh ddprun BIN
both tcp env DDPRUN_TRANSPORT=tcp bash END/peer_launchers_test.sh ddprun BIN
both c_interface bash END/peer_launchers_test.sh ddprun BIN c_program
short launch python3 -B END/launch_test.py BIN -v -k environment_of_each -k networks_reach -k sessions_of_their_own -k first_failure -k cannot_be_started
short report python3 -B END/report_test.py BIN -v -k reason_above -k error_files_of_both -k tells_everything
long memory_order_test
long shm_hostile_test
long distributed_sampler_test
long device_steps_test
long ddprun_command_line_test
long ddpctl_unit_test
long nccl_test
long nccl_killed_test
long etcd_unit_test
long door_test
long secure_test
long communicator_test
long group_test
long hosts_test
long agent_word_test
long fork_test
long killed_rank_test
long death_test
long message_killed_test
long cluster_test
long output_test
long doctor_test
long ddpbench_unit_test
long train_digits_unit_test
long launch python3 -B END/launch_test.py BIN -v
long report python3 -B END/report_test.py BIN -v
long ddpbench python3 -B END/ddpbench_test.py BIN -v
long train_digits bash END/train_digits_test.sh BIN"

chosen="$(awk -v other="${short:+long}" -v only="^($only)\$" '$1 != (other ? other : "short") && $2 ~ only' <<<"$tests")"
[[ -n "$chosen" ]] || { echo "arm.sh: no test has such a name: $only" >&2; exit 2; }
# What is shipped, what these tests run, and what the end-to-end tests start; the others bring what they start.
targets=(ddprun_packages)
read -ra programs <<<"$(awk 'NF == 2 { print $2 } match($0, /BIN\/[a-z_]+/) { print substr($0, RSTART + 4, RLENGTH - 4) }' <<<"$chosen" | tr '\n' ' ')"
targets+=("${programs[@]}" worker_stub output_stub clock_ahead collective_program c_program)
[[ -n "$short" ]] || targets+=(train_digits store_host_program tcp_store_program)
began=$SECONDS

if [[ -n "$build" ]]; then
    scripts/setup.sh --for arm
    cmake --preset arm64 -DDDPRUN_BUILD_TESTS=ON
    cmake --build build-arm64 --target "${targets[@]}"
fi
# What is in the system: unpacked, not installed. A second call finds it.
packages=(busybox-static bash coreutils libc6 libgcc-s1 libstdc++6 libtinfo6 libacl1 libattr1 libselinux1 libpcre2-8-0 libgmp10
    libssl3 python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libexpat1 zlib1g libbz2-1.0 liblzma5 libffi8 libuuid1
    libcrypt1)
modules=('*/inet_diag.ko' '*/tcp_diag.ko' '*/unix_diag.ko')
system="$PWD/build-arm64/system"
fetch() {
    # The package of that name is empty; it names the newest kernel.
    local kernel
    kernel="$(apt-cache depends linux-image-arm64:arm64 | sed -n 's/.*Depends: \(linux-image-[^:]*\).*/\1/p')"
    (cd "$system/packages" && apt-get download -q "${kernel:-linux-image-arm64}:arm64" "${packages[@]/%/:arm64}" >/dev/null 2>"$system/complaints")
}
if ! cmp -s "$system/is_complete" <(echo "${packages[@]}" "${modules[@]}"); then
    rm -rf "$system"
    mkdir -p "$system/packages" "$system/unpacked"
    # Lists of packages that are old, or not there, name what is gone, or nothing.
    update=(apt-get -q update)
    [[ "$(id -u)" -eq 0 ]] || update=(sudo "${update[@]}")
    fetch || { "${update[@]}" >/dev/null && fetch; } || { cat "$system/complaints" >&2; exit 1; }
    for package in "$system"/packages/*.deb; do
        dpkg-deb --fsys-tarfile "$package" |
            tar -x -C "$system/unpacked" --keep-directory-symlink --exclude='./lib/modules' --exclude='./usr/share/doc' --exclude='./usr/share/locale'
    done
    for package in "$system"/packages/linux-image-*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$system/unpacked" --wildcards --transform='s|.*/|modules/|' "${modules[@]}"
    done
    mv "$system"/unpacked/boot/vmlinuz-* "$system/kernel"
    rm -rf "$system/unpacked/boot" "$system/packages"
    echo "${packages[@]}" "${modules[@]}" >"$system/is_complete"
fi

[[ -n "$run" ]] || exit 0
built=$SECONDS

# Programs and tests lie where they do here: some have this folder's name compiled in, one reads the sources.
image="$system/image"
rm -rf "$image"
mkdir -p "$image$PWD/apps/ddprun"
cp -a "$system/unpacked/." "$image"
cp scripts/arm/init.sh "$image/init"
ln -sf python3.11 "$image/usr/bin/python3"
# Stripped, but for those whose functions are to be named.
for file in build-arm64/bin/* build-arm64/tests/collectives/*.so; do
    strip=(--strip --strip-program=aarch64-linux-gnu-strip)
    [[ "$file" != */look_stub* ]] || strip=()
    [[ ! -f "$file" ]] || install -D ${strip[@]+"${strip[@]}"} "$file" "$image$PWD/$file"
done
cp LICENSE "$image$PWD"
cp -r apps/data "$image$PWD/apps"
cp -r apps/ddprun/manual "$image$PWD/apps/ddprun"
cp -r collectives rendezvous tests "$image$PWD"
while read -r _ name words; do
    words="${words:-BIN/$name}"
    words="${words//BIN/$PWD/build-arm64/bin}"
    echo "$name ${words//END/$PWD/tests/end_to_end}"
done <<<"$chosen" >"$image/tests"
(cd "$image" && find . | cpio -o -H newc --quiet | gzip -1) >"$system/initramfs"
rm -rf "$image"

# Far more than it takes; it guards against a system that hangs. In this process group, since who ends this ends the system.
most_seconds=5400
status=0
timeout --foreground "$most_seconds" qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on -smp 2 -m 4G -nographic -nic none -no-reboot \
    -kernel "$system/kernel" -initrd "$system/initramfs" -append "console=ttyAMA0 quiet loglevel=1 panic=-1" </dev/null |
    stdbuf -oL tr -d '\r' | tee "$system/log" || status=$?
[[ "$status" -eq 0 ]] || echo "arm.sh: qemu ended with exit code $status"
echo
echo "minutes: $(((built - began) / 60)) to build, $(((SECONDS - built) / 60)) to run"
# shellcheck disable=SC2046  # Words.
python3 -B scripts/arm/table.py "$system/log" $(awk '{ print $2 }' <<<"$chosen")
