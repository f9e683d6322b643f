#!/usr/bin/env bash
# Sets up, builds and runs every test; ends with ctest's summary and its exit code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'USAGE'
usage: scripts/test.sh [--preset release|asan|tsan] [--build-only] [ctest arguments]
  --preset      which build of CMakePresets.json to test (default: release)
  --build-only  builds what is to be tested, and ends
  Everything else goes to ctest: -R NAME runs the tests that match, -E NAME all others.
  In the environment, DDPRUN_WERROR=ON makes compiler warnings errors.
USAGE
}

preset=release
build_only=
ctest_arguments=()
while [[ $# -gt 0 ]]; do
    case "$1" in
        --preset) preset="${2:-}"; shift; [[ $# -eq 0 ]] || shift ;;
        --preset=*) preset="${1#*=}"; shift ;;
        --build-only) build_only=yes; shift ;;
        -h | --help) usage; exit 0 ;;
        *) ctest_arguments+=("$1"); shift ;;
    esac
done
case "$preset" in
    release) folder=build at_once=6 ;;
    asan | tsan) folder="build-$preset" at_once=2 ;;
    *) echo "test.sh: --preset '$preset' is none of release, asan, tsan" >&2; exit 2 ;;
esac

scripts/setup.sh --for test
cmake --preset "$preset" -DDDPRUN_BUILD_TESTS=ON ${DDPRUN_WERROR:+"-DDDPRUN_WERROR=$DDPRUN_WERROR"}
cmake --build "$folder"
[[ -z "$build_only" ]] || exit 0

# ctest shows the output of all tests or of failed ones; wanted here: of failed and skipped ones, and from the others
# every line that says what was skipped and why.
show_what_matters() {
    awk '
        /^[0-9]+: (Test command|Working Directory|Test timeout computed|Environment variables):?/ { next }
        /^(UpdateCTestConfiguration|Parse Config file|Constructing a list|Done constructing|Updating test list)/ { next }
        /^(Added [0-9]+ tests|Checking test dependency|test [0-9]+$| *Start +[0-9]+: )/ { next }
        /^[0-9]+: / {
            number = $0; sub(/:.*/, "", number); sub(/^[0-9]+: /, "")
            kept[number] = kept[number] "    " $0 "\n"
            if (tolower($0) ~ /^[[:space:]]*skipped: /) skips[number] = skips[number] "    " $0 "\n"
            next
        }
        /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
            number = $0; sub(/^[^#]*#/, "", number); sub(/:.*/, "", number)
            print
            printf "%s", ($0 ~ / Passed /) ? skips[number] : kept[number]
            fflush(); delete kept[number]; delete skips[number]
            next
        }
        /^The following tests passed:/ { naming_passed = 1 }
        /tests passed,/ { naming_passed = 0; summary = 1 }
        (NF || summary) && !naming_passed { print; fflush() }
    '
}

set +e

# Most tests wait for others' clocks most of the time, but under sanitizers; those that compute say so (PROCESSORS,
# DDPRUN_COMPUTING).
ctest --test-dir "$folder" --verbose --parallel "$((at_once * $(nproc)))" "${ctest_arguments[@]}" 2>&1 | show_what_matters
exit "${PIPESTATUS[0]}"
