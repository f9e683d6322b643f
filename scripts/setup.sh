#!/usr/bin/env bash
# Installs what ddprun is built and tested with, from Debian's packages, and only what is missing:
# a second call does nothing and needs no network.
set -euo pipefail

usage() {
    cat <<'USAGE'
usage: scripts/setup.sh [--for build|test|bench|arm|ci] [--list]
  --for build   what the programs are built with (default)
  --for test    also what the tests need: Catch2, PyTorch's own store client, Open MPI, network namespaces
  --for bench   also the launchers and tools that ddprun is measured against
  --for arm     what aarch64 is built and tested with on another machine, beside what the build needs: Debian's multiarch
  --for ci      all of build, test and bench, and the second compiler, the formatter, the linter and the fuzzer
  --list        only print the packages, one a line, with the reason
USAGE
}

# package:what it is for, one a line.
build_packages="\
g++:the C++20 compiler
cmake:the build
ninja-build:the build
libboost1.81-dev:Asio, Process, JSON (headers)
libcli11-dev:command lines
libtomlplusplus-dev:the file of --config (headers)
libspdlog-dev:the launcher's log
libfmt-dev:what spdlog formats with
libssl-dev:TLS to etcd (headers; the library is opened where a job wants it)
libsodium-dev:what the agents of a job with a secret say to each other, and what its ranks prove
libdw-dev:in which functions a rank waits, and with it libelf-dev and zlib1g-dev"
test_packages="\
catch2:the unit tests
python3:the tests that are scripts
python3-torch:PyTorch's own store client and torchrun
python3-venv:the environment with a current PyTorch
python3-dev:the backend for PyTorch, compiled
python3-numpy:the Python package
dpkg-dev:the packages for Debian, made
binutils:which of CUDA's libraries that one needs
openmpi-bin:the tests under mpirun
python3-yaml:the manifests for Kubernetes, in tests
strace:which files a launcher opens, and the wake-ups of an idle one
groff-base:the manual pages, made
mandoc:the manual pages, checked
fish:its completion
zsh:its completion
iproute2:the tests with a network namespace per node
openssh-server:a job that is started on hosts by ssh
openssh-client:the same
procps:the walk through a newcomer's first hour
util-linux:the same"
bench_packages="\
findutils:xargs, which ddprun is measured against
libopenmpi-dev:the all-reduce that ours is measured against
libgloo-dev:the same
gnuplot-nox:the plot of both"
arm_packages="\
g++-aarch64-linux-gnu:the compiler for aarch64
libsodium-dev:arm64:the same library, for that
libssl-dev:arm64:the same headers
libdw-dev:arm64:the same library
libc6:arm64:what its programs depend on
libstdc++6:arm64:the same
qemu-user:the programs that say their manual pages
qemu-system-arm:a machine to run the tests on
cpio:its first file system
python3:the table of the tests
catch2:the unit tests"
ci_packages="\
etcd-server:the election of a host
slurm-wlm:the tests under Slurm
munge:the same
mpich:the tests under Hydra (mpiexec.hydra; mpirun stays Open MPI's)
lintian:mistakes in the packages for Debian
shellcheck:mistakes in the batch scripts
openssl:certificates for it
ccache:a build of sources that were compiled before
clang:the second compiler
clang-format:the layout of the sources
clang-tidy:mistakes in the sources
clang-tools:the second compiler's warnings of the tests
libclang-rt-14-dev:random bytes for the store"

purpose=build
list_only=no
while [[ $# -gt 0 ]]; do
    case "$1" in
        --for) purpose="${2:-}"; shift; [[ $# -eq 0 ]] || shift ;;
        --for=*) purpose="${1#*=}"; shift ;;
        --list) list_only=yes; shift ;;
        -h | --help) usage; exit 0 ;;
        *) echo "setup.sh: unknown argument '$1' (see --help)" >&2; exit 2 ;;
    esac
done
case "$purpose" in
    build) wanted="$build_packages" ;;
    test) wanted="$build_packages"$'\n'"$test_packages" ;;
    bench) wanted="$build_packages"$'\n'"$test_packages"$'\n'"$bench_packages" ;;
    arm) wanted="$build_packages"$'\n'"$arm_packages" ;;
    ci) wanted="$build_packages"$'\n'"$test_packages"$'\n'"$bench_packages"$'\n'"$ci_packages" ;;
    *) echo "setup.sh: --for '$purpose' is none of build, test, bench, arm, ci" >&2; exit 2 ;;
esac

if [[ "$list_only" == yes ]]; then
    sed 's/^\([^:]*\(:arm64\)\?\):/\1: /' <<<"$wanted"
    exit 0
fi

names="$(sed 's/:[^:]*$//' <<<"$wanted" | tr '\n' ' ')"
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "setup.sh: this is no Debian system; install what matches Debian 12's packages: $names" >&2
    exit 1
fi

missing=()
while IFS= read -r line; do
    [[ "$line" =~ ^([^:]*(:arm64)?):(.*)$ ]]
    package="${BASH_REMATCH[1]}" reason="${BASH_REMATCH[3]}"
    status="$(dpkg-query -W -f='${db:Status-Status} ' "$package" 2>/dev/null || true)"
    if [[ " $status" != *" installed "* ]]; then
        missing+=("$package")
        echo "setup.sh: $package is missing ($reason)"
    fi
done <<<"$wanted"
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ "$(id -u)" -ne 0 ]]; then
    if ! command -v sudo >/dev/null; then
        echo "setup.sh: neither root nor sudo; as root run: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

echo "setup.sh: installing ${missing[*]}"
if [[ "${missing[*]}" == *:arm64* && " $(dpkg --print-architecture) $(dpkg --print-foreign-architectures) " != *arm64* ]]; then
    "${as_root[@]}" dpkg --add-architecture arm64
fi
# The lists are refreshed first: on a fresh machine they are empty, on an old one they name packages that are gone.
if ! apt update >/dev/null; then
    echo "setup.sh: apt-get update failed; trying with the package lists as they are" >&2
fi
if ! apt install --no-install-recommends "${missing[@]}" >/dev/null; then
    echo "setup.sh: apt-get could not install ${missing[*]} (ddprun wants the packages of Debian 12)" >&2
    exit 1
fi
