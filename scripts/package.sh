#!/usr/bin/env bash
# Makes what people install, in build/packages: packages for Debian and a wheel for Python. A release build is used as it is, so
# that nothing is compiled twice.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'USAGE'
usage: scripts/package.sh [--build FOLDER] [--arch arm64 | [--prebuilt] [--release N]... [--torch PYTHON]... [--python PYTHON]...] [--twice]
  --build FOLDER   the release build (default: build, for arm64 build-arm64)
  --arch arm64     for aarch64, cross-built; its wheel has the backend as sources, compiled where it is used
  --prebuilt       the wheel carries the backend for each release of PyTorch that PREBUILT below names; they come by pip into
                   FOLDER/torch, once
  --release N      so for this release alone, 2.15.0 (may be repeated)
  --torch PYTHON   also for the torch of this Python (may be repeated); for any other torch the backend is compiled where it is used
  --python PYTHON  each of them also for this Python, whose headers suffice (may be repeated)
  --twice          compiles all of it once more, in a folder elsewhere, and compares: ends with 1 where a byte differs
USAGE
}

# The last three, and the older ones that the backend is tried with.
PREBUILT=(2.15.0 2.14.1 2.13.0 2.12.1 2.9.1)
build='' preset=release setup=build
torches=()
pythons=("")
prebuilt=()
twice=
while [[ $# -gt 0 ]]; do
    case "$1" in
        --build) build="${2:?--build needs a folder}"; shift 2 ;;
        --arch)
            [[ "${2:-}" == arm64 ]] || { echo "package.sh: --arch '${2:-}' is not arm64 (without --arch: this machine's)" >&2; exit 2; }
            preset=arm64 setup=arm
            shift 2
            ;;
        --twice) twice=yes; shift ;;
        --torch) torches+=("${2:?--torch needs a Python}"); shift 2 ;;
        --prebuilt) prebuilt+=("${PREBUILT[@]}"); shift ;;
        --release) prebuilt+=("${2:?--release needs a number}"); shift 2 ;;
        --python) pythons+=("${2:?--python needs a Python}"); shift 2 ;;
        -h | --help) usage; exit 0 ;;
        *) echo "package.sh: unknown argument '$1' (see --help)" >&2; exit 2 ;;
    esac
done
if [[ "$preset" == arm64 && $((${#torches[@]} + ${#prebuilt[@]})) -gt 0 ]]; then
    echo "package.sh: --arch arm64 has no --torch, --prebuilt or --release: they compile with this machine's torch" >&2
    exit 2
fi
if [[ -z "$build" ]]; then
    build=build
    [[ "$preset" == release ]] || build="build-$preset"
fi
if [[ -n "$twice" && ("$preset" == arm64 || ${#torches[@]} -gt 0 || ${#prebuilt[@]} -gt 0) ]]; then
    echo "package.sh: --twice compares what this machine's build makes without a torch" >&2
    exit 2
fi

if [[ ! -f "$build/CMakeCache.txt" ]]; then
    scripts/setup.sh --for "$setup"
    cmake --preset "$preset" -B "$build" -DDDPRUN_BUILD_TESTS=OFF
fi
build="$(realpath "$build")"
# What is packed has the time of its commit, so that the same sources give the same bytes.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CMakeLists.txt)}"
cmake --build "$build" --target ddprun_packages
rm -rf "$build/packages"
mkdir "$build/packages"
rm -rf "$build/prebuilt"
backend_for() {
    local python
    for python in "${pythons[@]}"; do
        PYTHONPATH=apps/python "$1" -B -m ddprun.torch build "$build/prebuilt" ${python:+--python "$python"} "@$build/apps/python/old_glibc.words"
    done
}
for release in ${prebuilt[@]+"${prebuilt[@]}"}; do
    PYTHONPATH=scripts/interop python3 -B - "$build/torch/$release" "torch==$release" <<'PYTHON'
import sys
from environment import Environment
Environment(*sys.argv[1:]).make()
PYTHON
    backend_for "$build/torch/$release/venv/bin/python3"
done
for torch in ${torches[@]+"${torches[@]}"}; do backend_for "$torch"; done
[[ ! -d "$build/prebuilt" ]] || find "$build/prebuilt" -name '*.so' -exec strip {} +
(cd "$build" && cpack >packages/cpack.log) || { cat "$build/packages/cpack.log" >&2; exit 1; }
rm -rf "$build/packages/_CPack_Packages" "$build/packages/cpack.log"
scripts/cmake/debian_package.py "$build/apps/ddprun.version" "$build"/packages/*.deb
DDPRUN_BUILD="$build" python3 -B - "$build/packages" <<'PYTHON'
import sys
sys.path.insert(0, "apps/python")
from wheel_of_build import build_wheel
build_wheel(sys.argv[1])
PYTHON
# Where there is a way to older names of glibc, all that is in the wheel has gone it (apps/glibc/glibc_2_28.cpp).
if [[ -s "$build/apps/python/old_glibc.words" ]] && ! compgen -G "$build/packages/*-manylinux_2_28_*.whl" >/dev/null; then
    echo "package.sh: the wheel wants a younger glibc than 2.28 (apps/glibc/glibc_2_28.cpp has what is newer):" >&2
    objdump -T "$build"/apps/python/programs/* "$build/apps/python/libddprun_collectives.so" | grep -E 'GLIBC_2\.(29|[3-9][0-9])' >&2
    exit 1
fi
most=8
[[ ! -d "$build/prebuilt" ]] || most=20
if [[ -n "$(find "$build/packages" -name '*.whl' -size "+${most}M")" ]]; then
    echo "package.sh: the wheel is larger than $most MB:" >&2
    ls -l "$build"/packages/*.whl >&2
    exit 1
fi
ls -1 "$build/packages"
[[ -n "$twice" ]] || exit 0

# Nothing that was compiled before may stand in for what is compiled now.
again="$(mktemp -d)"
trap 'rm -rf "$again"' EXIT
sources="$again/another/place/of/the/sources"
mkdir -p "$sources"
git ls-files -z | tar -c --null -T - | tar -x -C "$sources"
(cd "$sources" && CCACHE_DISABLE=1 scripts/package.sh >"$again/log" 2>&1) || { tail -50 "$again/log" >&2; exit 1; }
differing=0
for package in "$build"/packages/*; do
    other="$sources/build/packages/${package##*/}"
    ! cmp -s "$package" "$other" || continue
    differing=1
    echo "package.sh: ${package##*/} is another one when it is compiled again:" >&2
    for one in "$package" "$other"; do
        to="$again/$([[ "$one" == "$package" ]] && echo first || echo second)/${package##*/}"
        mkdir -p "$to"
        if [[ "$one" == *.deb ]]; then dpkg-deb -R "$one" "$to"; else python3 -m zipfile -e "$one" "$to"; fi
    done
    diff -rq "$again/first/${package##*/}" "$again/second/${package##*/}" >&2 || true
done
[[ "$differing" == 1 ]] || echo "compiled twice: the same bytes"
exit "$differing"
