#!/usr/bin/env bash
# The collectives library can be configured where, of all that ddprun builds with, only Boost, fmt and libsodium are there,
# and Boost without Process; the launcher then cannot.
#   library_alone_test.sh SOURCE_DIR CMAKE CXX BOOST_INCLUDE FMT_INCLUDE SODIUM_INCLUDE
set -euo pipefail

source="$1" cmake="$2" cxx="$3" boost="$4" fmt="$5" sodium="$6"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/include/boost"
for entry in "$boost"/boost/*; do
    [[ "$(basename "$entry")" == process* ]] || ln -s "$entry" "$work/include/boost"
done
ln -s "$fmt/fmt" "$sodium"/sodium* "$work/include"
configure() {
    "$cmake" -S "$source" -B "$work/$1" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_INCLUDE_PATH="$work/include" \
        -DCMAKE_IGNORE_PATH="$boost;$fmt;$sodium;/usr/include;/usr/local/include" "${@:2}" >"$work/log" 2>&1
}

! configure all || { echo "ddprun was configured without Boost.Process: this test hides nothing"; exit 1; }
configure alone -DDDPRUN_COLLECTIVES_ONLY=ON || { cat "$work/log"; exit 1; }
"$cmake" --build "$work/alone" --target help >"$work/targets"
grep -qw ddprun_collectives_shared "$work/targets" || { cat "$work/targets"; exit 1; }
if grep -wE 'ddprun|ddpctl|ddpbench|train_digits|ddprun_launcher|[a-z_]+_test' "$work/targets"; then
    echo "the library alone brings these targets with it"
    exit 1
fi
echo "configured with Boost, fmt and libsodium alone"

# OpenSSL's headers are where the compiler finds them by itself.
sources="$(grep -oE '"file": "[^"]+"' "$work/alone/compile_commands.json" | cut -d'"' -f4)"
[[ -n "$sources" ]] || { echo "the library alone compiles nothing"; exit 1; }
if xargs grep -lE '#include <(openssl|boost/asio/ssl)/' <<<"$sources"; then
    echo "the library alone is compiled with OpenSSL"
    exit 1
fi

# The headers that the compiler finds by itself are not hidden from it.
used="$(grep -rhoE '#include <(CLI|spdlog|catch2|boost/process)[^>]*>' "$source/rendezvous" "$source/collectives" | sort -u)" || true
[[ -z "$used" ]] || { echo "included, but not asked for: $used"; exit 1; }
