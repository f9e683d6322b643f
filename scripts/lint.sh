#!/usr/bin/env bash
# The second compiler's warnings, for every source, and clang-tidy's, by .clang-tidy, for the four rooms; each is an
# error. The sources of a target are joined, since the headers that they share are most of the work: a library of 40
# sources takes half a minute, one source alone five seconds. So everything is looked at, not only what has changed.
# Tests get the compiler's warnings only: clang-tidy would spend on Catch2's macros more than on all of ours. CI, whose
# time is short, asks for the rooms alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'USAGE'
usage: scripts/lint.sh [--rooms] [TARGET…]
  --rooms  not the tests
  TARGET   only these of the build's targets, like ddprun_launcher or output_test (default: all)
USAGE
}
with_tests=yes
case "${1:-}" in
    -h | --help) usage; exit 0 ;;
    --rooms) with_tests=no; shift ;;
esac

folder=build-clang
cmake --preset clang >/dev/null

# joined FOLDERS TARGET: the joined sources of the targets that match. Not the fuzzer's: clang-check takes its flags for
# those of a link, and CI compiles it.
joined() { find $1 -path "*/CMakeFiles/$2.dir/Unity/unity_*.cxx" ! -path '*_fuzz.dir/*' | sort; }

# look COMMAND…: at each source of the standard input. How many warnings system headers have is nobody's business.
look() { xargs -r -n 1 -P "$(nproc)" "$@" 2> >(grep -v ' warnings\? generated' >&2); }

status=0
for target in "${@:-*}"; do
    rooms="$(joined "$folder/launcher $folder/rendezvous $folder/collectives $folder/apps" "$target")"
    tests="$([[ "$with_tests" = no ]] || joined "$folder/tests" "$target")"
    [[ -n "$rooms$tests" ]] || { echo "lint.sh: there is no target '$target'" >&2; exit 2; }
    look clang-tidy --quiet -p "$folder" <<<"$rooms" || status=1
    look clang-check -p "$folder" <<<"$tests" || status=1
done
exit "$status"
