#!/usr/bin/env bash
# The installed collectives library is all that a program outside this tree needs: by CMake and by pkg-config, as an
# archive and as a shared library.
#   install_test.sh BUILD_DIR CMAKE CXX CC FLAGS
set -euo pipefail

build="$1" cmake="$2" cxx="$3" cc="$4" flags="${5:-}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --component collectives --prefix "$work/installed" >"$work/install.log"

mkdir "$work/outside"
cat >"$work/outside/outside.cpp" <<'CPP'
#include <collectives/communicator.hpp>
#include <collectives/distributed_sampler.hpp>
#include <collectives/group.hpp>
#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
    const int rank = argc > 1 ? argv[1][0] - '0' : 0;
    auto comm = argc > 2 ? ddprun::Communicator::connect(argv[2], rank, 2) : ddprun::Communicator::from_env();
    std::vector<float> data(1000, static_cast<float>(comm.rank() + 1));
    comm.all_reduce(std::span(data), ddprun::ReduceOp::sum);
    ddprun::Group(comm).run();
    try {
        comm.broadcast(std::span(data), -1);
        return 1;
    } catch (const ddprun::CollectiveError& error) {
        if (error.code() != ddprun::CollectiveErrorCode::invalid_argument) return 1;
    }
    const ddprun::DistributedSampler sampler(10, comm.world_size(), comm.rank(), {});
    std::printf("%d ranks, sum %g, %zu samples\n", comm.world_size(), data[999], sampler.indices().size());
}
CPP
cat >"$work/outside/outside_c.c" <<'C'
#include <collectives/ddprun_collectives.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    ddprun_communicator* comm = NULL;
    float data[1000];
    const int code = argc > 2 ? ddprun_connect(argv[2], atoi(argv[1]), 2, NULL, &comm) : ddprun_from_env(NULL, &comm);
    if (code != DDPRUN_OK) { puts(ddprun_last_error()); return 1; }
    for (int i = 0; i < 1000; ++i) data[i] = (float)(ddprun_rank(comm) + 1);
    if (ddprun_all_reduce(comm, data, data, 1000, DDPRUN_F32, DDPRUN_SUM, 0) != DDPRUN_OK) return 1;
    printf("%d ranks, sum %g, %d samples\n", ddprun_world_size(comm), data[999], 10 / ddprun_world_size(comm));
    ddprun_destroy(comm);
    return 0;
}
C
cat >"$work/outside/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.20)
project(outside LANGUAGES C CXX)
find_package(ddprun_collectives 0.2 REQUIRED)
foreach(form collectives collectives_shared)
  add_executable(${form}_cpp outside.cpp)
  add_executable(${form}_c outside_c.c)
  set_target_properties(${form}_c PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
  target_link_libraries(${form}_cpp PRIVATE ddprun::${form})
  target_link_libraries(${form}_c PRIVATE ddprun::${form})
endforeach()
CMAKE

run_alone_and_together() {
    [[ "$("$1")" == "1 ranks, sum 1, 10 samples" ]] || { echo "$1 alone: wrong"; exit 1; }
    rm -f "$work/meeting"
    "$1" 1 "file://$work/meeting" >"$work/rank1.log" &
    local other=$!
    "$1" 0 "file://$work/meeting" >"$work/rank0.log"
    wait "$other"
    for rank in 0 1; do
        [[ "$(cat "$work/rank$rank.log")" == "2 ranks, sum 3, 5 samples" ]] || { cat "$work/rank$rank.log"; exit 1; }
    done
    "$build/bin/ddprun" --nproc-per-node 2 "$1" >"$work/launched.log"
    [[ "$(sort -u "$work/launched.log")" == "2 ranks, sum 3, 5 samples" ]] || { cat "$work/launched.log"; exit 1; }
}

# needs_library PROGRAM yes|no: does it need the shared library at run time?
needs_library() {
    local found=no
    if readelf -d "$1" | grep -q 'NEEDED.*libddprun_collectives\.so\.[0-9]*\.[0-9]*\]'; then found=yes; fi
    [[ "$found" == "$2" ]] || { echo "$1 needs libddprun_collectives.so: $found"; exit 1; }
}

"$cmake" -S "$work/outside" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/installed" -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="$flags" >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
"$cmake" --build "$work/build" >"$work/build.log" 2>&1 || { tail -n 50 "$work/build.log"; exit 1; }
for language in cpp c; do
    needs_library "$work/build/collectives_$language" no
    needs_library "$work/build/collectives_shared_$language" yes
    run_alone_and_together "$work/build/collectives_$language"
    run_alone_and_together "$work/build/collectives_shared_$language"
done
echo "built and run with find_package"

# What a .pc file says, also where pkg-config itself is not installed.
read_pc() {
    local pc resolved prefix includedir libdir
    pc="$(find "$work/installed" -name "$1.pc")"
    if command -v pkg-config >/dev/null; then
        read -ra pc_flags < <(PKG_CONFIG_PATH="$(dirname "$pc")" pkg-config --cflags --libs "$1")
        return
    fi
    resolved="$(sed -n 's/^\(Cflags\|Libs\): //p' "$pc")"
    prefix="$(dirname "$pc")/$(sed -n 's/^prefix=${pcfiledir}\///p' "$pc")"
    includedir="$(sed -n 's/^includedir=${prefix}//p' "$pc")" libdir="$(sed -n 's/^libdir=${prefix}//p' "$pc")"
    resolved="${resolved//'${includedir}'/$prefix$includedir}"
    resolved="${resolved//'${libdir}'/$prefix$libdir}"
    read -ra pc_flags <<<"${resolved//$'\n'/ }"
}
# Build systems sort what a .pc file says by its form; a library by its path would come before what needs it.
only_common_forms() {
    local flag
    for flag in "${pc_flags[@]}"; do
        [[ "$flag" =~ ^(-I.+|-L.+|-l[a-z_]+|-pthread)$ ]] || { echo "$1.pc says $flag"; exit 1; }
    done
}
read -ra more_flags <<<"$flags"
warnings=(-Wall -Wextra -Wpedantic -Werror)
libdir="$(dirname "$(find "$work/installed" -name libddprun_collectives.a)")"

read_pc ddprun_collectives
only_common_forms ddprun_collectives
"$cxx" -std=c++20 "${more_flags[@]}" "$work/outside/outside.cpp" -o "$work/by_pkg_config" "${pc_flags[@]}"
"$cxx" -x c++ -std=c++11 "${warnings[@]}" "${more_flags[@]}" "${pc_flags[@]}" -fsyntax-only "$work/outside/outside_c.c"
"$cc" -std=c99 "${warnings[@]}" "${more_flags[@]}" "${pc_flags[@]}" -c "$work/outside/outside_c.c" -o "$work/outside_c.o"
"$cxx" "${more_flags[@]}" "$work/outside_c.o" -o "$work/c_by_pkg_config" "${pc_flags[@]}"
for program in by_pkg_config c_by_pkg_config; do
    needs_library "$work/$program" no
    run_alone_and_together "$work/$program"
done
# C alone needs no C++ linker for the shared library.
read_pc ddprun_collectives_shared
only_common_forms ddprun_collectives_shared
"$cc" "${more_flags[@]}" "$work/outside_c.o" -o "$work/c_shared_by_pkg_config" "${pc_flags[@]}" "-Wl,-rpath,$libdir"
needs_library "$work/c_shared_by_pkg_config" yes
run_alone_and_together "$work/c_shared_by_pkg_config"
echo "built and run with the .pc files"
