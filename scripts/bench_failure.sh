#!/usr/bin/env bash
# How long the survivors of a killed rank take to hear of it, beside Gloo's. Exits with 1 when a goal is missed.
# Usage: scripts/bench_failure.sh [--kills N] [--ranks N...] [--gib N...] [--hosts] [--samples FILE]   (--help lists all)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/cmake/build_bench.sh death_program ddprun -- "$@"
exec /usr/bin/python3 -B scripts/bench_failure.py "$@"
