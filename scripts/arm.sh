#!/usr/bin/env bash
# Builds ddprun for aarch64 and runs its tests there: in a whole system under qemu, of Debian's own arm64 kernel and programs, on
# whatever machine this is. User mode would not do: it knows no child sub-reaper. The kernel gets no modules, so it does not
# tell whose a connection is, as micro virtual machines do not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'USAGE'
usage: scripts/arm.sh [--short] [--only NAMES] [--build-only] [--no-build]
  --short       the tests that take little time under qemu, for CI
  --only NAMES  these tests (an extended regular expression of whole names)
  --build-only  builds what is to be tested, and ends
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

# The tests, one a line: in CI, too (short) or not (long); its name; what runs. An end-to-end test's words are its file and what comes
# behind the folder of the programs.
tests="\
short store_test
short worker_env_test
short collectives_unit_test
short shm_test
short message_test
short rendezvous_test
short launcher_test
short launch launch_test.py
short c_interface peer_launchers_test.sh ddprun BIN c_program
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
long report report_test.py
long peer_launchers_ddprun peer_launchers_test.sh ddprun
long ddpbench ddpbench_test.py
long train_digits train_digits_test.sh"
programs=(ddprun ddpctl ddpbench train_digits worker_stub output_stub store_host_program tcp_store_program collective_program
    c_program death_program message_program shrink_program fork_program clock_ahead)

chosen="$(awk -v short="$short" -v only="^($only)\$" '(short == "" || $1 == "short") && $2 ~ only' <<<"$tests")"
[[ -n "$chosen" ]] || { echo "arm.sh: no test has such a name: $only" >&2; exit 2; }
units="$(awk 'NF == 2 { print $2 }' <<<"$chosen")"
began=$SECONDS

[[ -z "$build" ]] || scripts/setup.sh --for arm
if [[ -n "$build" ]]; then
    cmake --preset arm64 -DDDPRUN_BUILD_TESTS=ON
    # shellcheck disable=SC2086  # Words.
    cmake --build build-arm64 --target "${programs[@]}" $units
fi
[[ -n "$run" ]] || exit 0
built=$SECONDS

# What is in the system: unpacked, not installed. A second call finds it.
packages=(linux-image-arm64 busybox-static bash coreutils libc6 libgcc-s1 libstdc++6 libtinfo6 libacl1 libattr1 libselinux1
    libpcre2-8-0 libgmp10 libssl3 python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libexpat1 zlib1g libbz2-1.0
    liblzma5 libffi8 libuuid1 libcrypt1)
system="$PWD/build-arm64/system"
if [[ ! -e "$system/is_complete" ]]; then
    rm -rf "$system"
    mkdir -p "$system/packages" "$system/unpacked"
    # The package of that name is empty; it names the newest kernel.
    packages[0]="$(apt-cache depends linux-image-arm64:arm64 | sed -n 's/.*Depends: \(linux-image-[^:]*\).*/\1/p')"
    (cd "$system/packages" && apt-get download -q "${packages[@]/%/:arm64}" >/dev/null 2>"$system/complaints") ||
        { cat "$system/complaints" >&2; exit 1; }
    for package in "$system"/packages/*.deb; do
        dpkg-deb --fsys-tarfile "$package" |
            tar -x -C "$system/unpacked" --keep-directory-symlink --exclude='./lib/modules' --exclude='./usr/share/doc' --exclude='./usr/share/locale'
    done
    mv "$system"/unpacked/boot/vmlinuz-* "$system/kernel"
    rm -rf "$system/unpacked/boot" "$system/packages"
    touch "$system/is_complete"
fi

# Programs and tests lie where they do here: some have this folder's name compiled in.
image="$system/image"
rm -rf "$image"
mkdir -p "$image$PWD/build-arm64/bin" "$image$PWD/apps/ddprun"
cp -a "$system/unpacked/." "$image"
cp scripts/arm/init.sh "$image/init"
ln -sf python3.11 "$image/usr/bin/python3"
for program in "${programs[@]}" $units; do
    file="build-arm64/bin/$program"
    [[ -e "$file" ]] || file="$file.so"
    aarch64-linux-gnu-strip -o "$image$PWD/$file" "$file"
done
cp -r apps/data "$image$PWD/apps"
cp -r apps/ddprun/manual "$image$PWD/apps/ddprun"
cp -r tests "$image$PWD"
while read -r _ name file words; do
    if [[ -z "$file" ]]; then
        echo "$name $PWD/build-arm64/bin/$name"
    elif [[ "$file" == *.py ]]; then
        echo "$name python3 -B $PWD/tests/end_to_end/$file $PWD/build-arm64/bin -v $words"
    elif [[ "$words" == *BIN* ]]; then
        echo "$name bash $PWD/tests/end_to_end/$file ${words/BIN/$PWD/build-arm64/bin}"
    else
        echo "$name bash $PWD/tests/end_to_end/$file $words $PWD/build-arm64/bin"
    fi
done <<<"$chosen" >"$image/tests"
(cd "$image" && find . | cpio -o -H newc --quiet | gzip -1) >"$system/initramfs"
rm -rf "$image"

# Far more than it takes; it guards against a system that hangs.
most_seconds=5400
status=0
timeout "$most_seconds" qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on -smp 2 -m 4G -nographic -nic none -no-reboot \
    -kernel "$system/kernel" -initrd "$system/initramfs" -append "console=ttyAMA0 quiet loglevel=1 panic=-1" </dev/null |
    tr -d '\r' | tee "$system/log" || status=$?
[[ "$status" -eq 0 ]] || echo "arm.sh: qemu ended with exit code $status"
echo
echo "minutes: $(((built - began) / 60)) to build, $(((SECONDS - built) / 60)) to run"
# shellcheck disable=SC2046  # Words.
python3 -B scripts/arm/table.py "$system/log" $(awk '{ print $2 }' <<<"$chosen")
