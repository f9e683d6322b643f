#!/usr/bin/env bash
# Makes what people install, in build/packages: packages for Debian and a wheel for Python. A release build is used as it is, so
# that nothing is compiled twice.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'USAGE'
usage: scripts/package.sh [--build FOLDER] [--torch PYTHON]...
  --build FOLDER  the release build (default: build)
  --torch PYTHON  the wheel carries the backend for the torch of this Python (may be repeated); for any other torch the backend
                  is compiled where it is used
USAGE
}

build=build
pythons=()
while [[ $# -gt 0 ]]; do
    case "$1" in
        --build) build="${2:?--build needs a folder}"; shift 2 ;;
        --torch) pythons+=("${2:?--torch needs a Python}"); shift 2 ;;
        -h | --help) usage; exit 0 ;;
        *) echo "package.sh: unknown argument '$1' (see --help)" >&2; exit 2 ;;
    esac
done

if [[ ! -f "$build/CMakeCache.txt" ]]; then
    scripts/setup.sh --for build
    cmake --preset release -B "$build" -DDDPRUN_BUILD_TESTS=OFF
fi
build="$(realpath "$build")"
cmake --build "$build" --target ddprun_packages
rm -rf "$build/packages"
mkdir "$build/packages"
rm -rf "$build/prebuilt"
for python in ${pythons[@]+"${pythons[@]}"}; do
    PYTHONPATH=apps/python "$python" -B -m ddprun.torch build "$build/prebuilt"
done
[[ ! -d "$build/prebuilt" ]] || find "$build/prebuilt" -name '*.so' -exec strip {} +
(cd "$build" && cpack >packages/cpack.log) || { cat "$build/packages/cpack.log" >&2; exit 1; }
rm -rf "$build/packages/_CPack_Packages" "$build/packages/cpack.log"
DDPRUN_BUILD="$build" python3 -B - "$build/packages" <<'PYTHON'
import sys
sys.path.insert(0, "apps/python")
from wheel_of_build import build_wheel
build_wheel(sys.argv[1])
PYTHON
ls -1 "$build/packages"
