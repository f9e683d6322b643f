#!/usr/bin/env bash
# The archive and the shared library of the package give a program the names of the public headers and no others, so
# whatever else they contain neither clashes with the program's own names nor uses them. What stands above the collectives'
# floor is not in them, and a release build is small.
#   package_names_test.sh ARCHIVE SHARED_LIBRARY SOURCE_DIR CXX PYTHON TRAIN_DIGITS BUILD_TYPE [FLAGS]
set -euo pipefail

archive="$1" shared="$2" source="$3" cxx="$4" python="$5" train_digits="$6" build_type="$7"
read -ra flags <<<"${8:-}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$*"
    exit 1
}

# Names that no public header declares: of another namespace, or of a class that they do not mention.
headers="$(sed -n '/^install(FILES/,/DESTINATION/p' "$source/collectives/CMakeLists.txt" | grep -oE '[a-z0-9_]+\.(hpp|h)\b' |
    sort -u | sed "s|^|$source/collectives/|")"
check_names() {
    local library="$1" name word
    [[ -s "$work/names" ]] || fail "$library: no global names at all"
    while IFS= read -r name; do
        word="$(sed -nE 's/^((typeinfo|typeinfo name|vtable) for )?([^(<]* )?(ddprun::)([A-Za-z0-9_]+).*$/\5/p; s/^(ddprun_[a-z_]+)$/\1/p' <<<"$name")"
        [[ -n "$word" ]] || fail "$library: '$name' is not of ddprun"
        [[ "$word" != detail ]] || fail "$library: '$name' is below the public headers"
        # shellcheck disable=SC2086
        grep -qw "$word" $headers || fail "$library: '$name' is in no public header"
    done <"$work/names"
    for name in 'ddprun::Communicator::from_env(ddprun::CommunicatorOptions const&)' 'typeinfo for ddprun::CollectiveError' \
        'ddprun::GradBuckets<float>::wait_all()' ddprun_from_env ddprun_last_error; do
        grep -qFx "$name" "$work/names" || fail "$library: '$name' is missing"
    done
    ! grep -q 'Session::\|Details::' "$work/names" || fail "$library: what a public class has within is global"
}
nm -C --defined-only --extern-only "$archive" | sed -nE 's/^[0-9a-f]+ [A-Za-z] //p' | sort -u >"$work/names"
check_names "$archive"
nm -C --defined-only --dynamic "$shared" | sed -nE '/ A DDPRUN_/d; s/^[0-9a-f]+ [A-Za-z] //p' | sed 's/@@DDPRUN_[0-9.]*$//' |
    sort -u >"$work/names"
check_names "$shared"
echo "the public names only"

# The launcher's world: the coordinator, and what only it needs.
for file in "$archive" "$shared" "$train_digits"; do
    nm -C "$file" 2>/dev/null >"$work/all_names"
    grep -q 'ddprun::' "$work/all_names" || fail "$file: no names to look at"
    for word in 'Coordinator' 'SSL_' 'Etcd'; do
        found="$(grep -m 1 -E "(^|[^A-Za-z])$word" "$work/all_names" || true)"
        [[ -z "$found" ]] || fail "$file: carries $word: $found"
    done
done
echo "nothing of the coordinator's"
if [[ "$build_type" == Release && ${#flags[@]} -eq 0 ]]; then
    small() {
        strip -o "$work/stripped" "$1"
        local bytes
        bytes="$(stat -c %s "$work/stripped")"
        [[ "$bytes" -le "$2" ]] || fail "$1: $bytes bytes stripped, must be at most $2"
        echo "$(basename "$1"): $bytes bytes stripped"
    }
    small "$shared" 3000000
    small "$train_digits" 4000000
fi

# A program with a function of another Boost, as far as the linker can tell: of Asio's, which the store that rank 0
# hosts here is made with.
cat >"$work/clash.cpp" <<'CPP'
#include <collectives/communicator.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

namespace boost::asio {
class execution_context;
namespace detail {
class scheduler_task;
struct scheduler {
    scheduler(execution_context&, int, bool, scheduler_task* (*)(execution_context&));
};
scheduler::scheduler(execution_context&, int, bool, scheduler_task* (*)(execution_context&)) {
    std::fputs("the library called the program's own function\n", stderr);
    std::abort();
}
}  // namespace detail
}  // namespace boost::asio

int main(int, char** argv) try {
    auto comm = ddprun::Communicator::connect(argv[1], std::stoi(argv[2]), 2);
    try {
        comm.recv(static_cast<void*>(nullptr), 1, ddprun::DataType::f32, comm.rank());
    } catch (const ddprun::CollectiveError& error) {
        if (error.code() != ddprun::CollectiveErrorCode::invalid_argument) return 1;
        int sum = 1;
        comm.all_reduce(std::span(&sum, 1), ddprun::ReduceOp::sum);
        comm.finalize();
        return sum == 2 ? 0 : 1;
    }
    return 1;
} catch (const std::exception& error) {
    std::puts(error.what());
    return 1;
}
CPP
"$cxx" -std=c++20 "${flags[@]}" "-I$source" -c "$work/clash.cpp" -o "$work/clash.o"
"$cxx" "${flags[@]}" "$work/clash.o" "$archive" -pthread -o "$work/clash_static"
"$cxx" "${flags[@]}" "$work/clash.o" "$shared" "-Wl,-rpath,$(dirname "$shared")" -pthread -o "$work/clash_shared"
for program in clash_static clash_shared; do
    port="$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
    "$work/$program" "tcp://127.0.0.1:$port" 1 &
    other=$!
    "$work/$program" "tcp://127.0.0.1:$port" 0 || { kill "$other"; fail "$program: rank 0 failed"; }
    wait "$other" || fail "$program: rank 1 failed"
done
echo "beside a function of Boost's name"

# As an extension of an interpreter loads it: by dlopen, and for itself only.
if [[ ${#flags[@]} -gt 0 ]]; then
    echo "skipped: dlopen, for which a sanitizer's library would have to be there first"
    exit 0
fi
DDPRUN_COLLECTIVES_LIBRARY="$shared" PYTHONPATH="$source/apps/python" "$python" -B - <<'PYTHON'
import ctypes

from ddprun import abi

library = abi.load()
assert library.ddprun_code_name(3) == b"peer_died", library.ddprun_code_name(3)
comm = ctypes.c_void_p()
assert library.ddprun_connect(b"nowhere", 0, 1, None, ctypes.byref(comm)) == 1
assert b"nowhere" in library.ddprun_last_error(), library.ddprun_last_error()
assert library.ddprun_connect(b"file:///unused", 0, 1, None, ctypes.byref(comm)) == 0, library.ddprun_last_error()
value = ctypes.c_float(3)
request = abi.Request(size=ctypes.sizeof(abi.Request), operation=1, in_=ctypes.addressof(value), out=ctypes.addressof(value), count=1)
assert library.ddprun_run(comm, request) == 0 and value.value == 3
library.ddprun_destroy(comm)
PYTHON
echo "loaded by dlopen"
