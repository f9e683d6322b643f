#!/usr/bin/env bash
# The programs given need nothing but libc at run time, and one that is years old, so one copied file installs them.
set -euo pipefail

[[ $# -gt 0 ]] || { echo "static_link_test: no program given"; exit 1; }

allowed='^(linux-vdso\.so\.1|libc\.so\.6|libm\.so\.6|ld-linux[a-z0-9-]*\.so\.[0-9])$'
newest_glibc=34
worst=0
for program in "$@"; do
    needed="$(ldd "$program" | awk '{ print $1 }' | xargs -n 1 basename)"
    if ! grep -qx 'libc\.so\.6' <<<"$needed"; then
        echo "$program: ldd does not even name libc.so.6: $needed"
        worst=1
    fi
    if foreign="$(grep -Ev "$allowed" <<<"$needed")"; then
        echo "$program needs more than libc: ${foreign//$'\n'/ }"
        worst=1
    fi
    if young="$(grep -aoE 'GLIBC_2\.[0-9]+' "$program" | sort -Vu | tail -n 1)" && [[ "${young#GLIBC_2.}" -gt "$newest_glibc" ]]; then
        echo "$program needs $young, which is younger than glibc 2.$newest_glibc"
        worst=1
    fi
    # A release's guards: where there is one of them, the containers' is there, too.
    if grep -aq __stack_chk_fail "$program" && ! grep -aqF "__n < this->size()" "$program"; then
        echo "$program was built without _GLIBCXX_ASSERTIONS"
        worst=1
    fi
done
echo "$# programs checked"
exit "$worst"
