#!/usr/bin/env bash
# The collectives' figures: all_reduce beside Open MPI and Gloo, in turn. Exits with 1 when a goal is missed.
# Usage: scripts/bench_collectives.sh [--rounds N] [--ranks N...] [--plot FILE] [...]   (--help lists all)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/cmake/build_bench.sh ddprun ddpbench -- "$@"
status=0
/usr/bin/python3 -B scripts/bench_collectives.py "$@" || status=$?
case " $* " in *" --help "* | *" -h "*) exit "$status" ;; esac
# Between hosts.
/usr/bin/python3 -B scripts/bench_hosts.py "$@" || status=1
exit "$status"
