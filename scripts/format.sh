#!/usr/bin/env bash
# Lays out every C++ source with clang-format; --check changes nothing and fails when a file would change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
    "" | --check) ;;
    *) echo "usage: scripts/format.sh [--check]" >&2; exit 2 ;;
esac

# Versions lay out differently; 14 is the one that decides.
formatter="$(command -v clang-format-14 || command -v clang-format || true)"
if [[ -z "$formatter" ]]; then
    echo "format.sh: clang-format is missing: install the Debian package clang-format (or scripts/setup.sh --for ci)" >&2
    exit 1
fi
version="$("$formatter" --version)"
if [[ "$version" != *"version 14."* ]]; then
    echo "format.sh: clang-format 14 decides, this is: $version" >&2
    exit 1
fi

sources() {
    find apps launcher rendezvous collectives tests -type f \
        \( -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print0 | sort -z
}

if [[ -z "${1:-}" ]]; then
    sources | xargs -0 -n 8 -P "$(nproc)" "$formatter" --style=file -i
    exit 0
fi

sources | xargs -0 -n 8 -P "$(nproc)" "$formatter" --style=file --dry-run --Werror ||
    { echo "format.sh: files are not laid out (scripts/format.sh mends them)"; exit 1; }
