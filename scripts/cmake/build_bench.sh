#!/usr/bin/env bash
# Builds what a bench_*.sh measures; nothing where its words ask for help alone.
# Usage: scripts/cmake/build_bench.sh TARGET... -- [WORD...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

targets=()
while [[ "$1" != -- ]]; do
    targets+=("$1")
    shift
done
case " $* " in *" --help "* | *" -h "*) exit 0 ;; esac
scripts/setup.sh --for bench
[[ -f build/build.ninja ]] || cmake --preset release
cmake --build build --target "${targets[@]}"
