#!/usr/bin/env bash
# The rendezvous figures: a thousand agents and ten thousand store clients on one port, memory of an idle connection, from
# a failure or a killed agent to the other nodes' workers, wake-ups of idle agents. Exits with 1 when a figure misses its
# goal. `--rounds N` sets how often; see --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/cmake/build_bench.sh ddprun rendezvous_load -- "$@"
exec python3 -B scripts/bench_rendezvous.py "$@"
