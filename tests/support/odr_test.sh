#!/usr/bin/env bash
# The link of a sanitizer's build finds a type that two sources define differently: with its switches, two such sources do
# not link, and two that differ in their names do.
#   odr_test.sh COMPILER
set -euo pipefail

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
if ! command -v ld.gold >/dev/null; then
    echo "skipped: ld.gold is missing (Debian package binutils)"
    exit 77
fi

# source_of FILE TYPE MEMBER: a source that destroys a TYPE with that member. (The linker looks at functions of unlike sizes.)
source_of() {
    printf '#include <string>\nnamespace ddprun {\nstruct %s {\n    %s\n    std::string name;\n};\nvoid use_%s(%s* value) { delete value; }\n}\n' \
        "$2" "$3" "$1" "$2" >"$folder/$1.cpp"
    "$compiler" -std=c++20 -O0 -g1 -c "$folder/$1.cpp" -o "$folder/$1.o"
}
links() {
    "$compiler" -fuse-ld=gold -Wl,--detect-odr-violations,--fatal-warnings "$folder"/{main,a,b}.o -o "$folder/program" 2>"$folder/said"
}

compiler="$1"
echo 'int main() {}' >"$folder/main.cpp"
"$compiler" -c "$folder/main.cpp" -o "$folder/main.o"

source_of a Member 'int rank;'
source_of b Other 'std::string host;'
links || { cat "$folder/said"; echo "two types of two names are refused"; exit 1; }
source_of b Member 'std::string host;'
if links; then
    echo "two types of one name are linked into one program"
    exit 1
fi
grep -q "Member::~Member" "$folder/said" || { cat "$folder/said"; echo "the complaint does not name the type"; exit 1; }
