#!/usr/bin/env bash
# Real programs under ddprun with Debian's PyTorch and a current one, one line for each case: process groups, training, RPC,
# checkpoints, restarts, nodes that come and go, every verb of the store's client, frameworks. The current PyTorch is
# installed by pip into build/interop, once (ahead: --prepare); see --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

if [[ " $* " != *" --prepare "* && " $* " != *" --bin"* && " $* " != *" --help "* && " $* " != *" -h "* && " $* " != *" --list "* ]]; then
    scripts/setup.sh --for test
    [[ -f build/build.ninja ]] || cmake --preset release
    cmake --build build --target ddprun
fi
# The limit is for a suite that would hang as a whole; each job has its own.
exec timeout --kill-after=10 2400 python3 -B scripts/interop/suite.py "$@"
