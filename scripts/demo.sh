#!/usr/bin/env bash
# The main job, from nothing: installs what is missing, builds Release, and trains on the handwritten digits with
# four worker processes. A second call builds nothing again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh --for build
# A folder that is configured already is used as it is, so this script and test.sh never reconfigure each other's.
[[ -f build/build.ninja ]] || cmake --preset release -DDDPRUN_BUILD_TESTS=OFF
cmake --build build --target ddprun train_digits

command=(build/bin/ddprun --nproc-per-node 4 build/bin/train_digits --data apps/data/digits.csv)
echo "+ ${command[*]}"
exec "${command[@]}"
