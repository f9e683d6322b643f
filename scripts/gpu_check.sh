#!/usr/bin/env bash
# Checks the NCCL backend on a machine with a GPU, its driver and NCCL, but without compilers or packages.
# Usage: scripts/gpu_check.sh --build [DIR]            where there is a compiler: puts the programs into DIR/bin (build-gpu)
#        scripts/gpu_check.sh --run [DIR] [OPTION...]  where there is a GPU: prints one table; 1 if a check fails
#        scripts/gpu_check.sh --standin BIN STANDIN    tests this script on NCCL's stand-in (see tests/helpers)
set -euo pipefail
top="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
programs=(ddprun ddpbench gpu_check_program)

usage() {
    sed -n 's/^# \{0,1\}//; 3,5p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

python() {
    command -v python3 >/dev/null || { echo "gpu_check: python3 is missing" >&2; exit 1; }
    exec python3 -B "$top/scripts/peers/gpu_check.py" "$@"
}

mode="${1:-}"
[[ $# -eq 0 ]] || shift
case "$mode" in
    --build)
        out="${1:-$top/build-gpu}"
        cmake -S "$top" -B "$out/work" --preset release
        if grep -q '^build .*bin/train_digits_gpu:' "$out/work/build.ninja"; then programs+=(train_digits_gpu); fi
        cmake --build "$out/work" --target "${programs[@]}"
        mkdir -p "$out/bin"
        for program in "${programs[@]}"; do strip -o "$out/bin/$program" "$out/work/bin/$program"; done
        echo "gpu_check: $(du -sh "$out/bin" | cut -f1) in $out/bin to be carried along; then: scripts/gpu_check.sh --run" ;;
    --run)
        folder="$top/build-gpu"
        if [[ $# -gt 0 && "$1" != -* ]]; then folder="$1"; shift; fi
        python --bin "$folder/bin" "$@" ;;
    --standin)
        [[ $# -ge 2 ]] || usage
        python --bin "$1" --standin "$2" "${@:3}" ;;
    *) usage ;;
esac
