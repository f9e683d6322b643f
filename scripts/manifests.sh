#!/usr/bin/env bash
# Whether Kubernetes takes the manifests of this folder, by its schemas of an old and of the current version, one line for each
# case. The schemas come by pip into build/manifests, once (140 MB); where they cannot be had, the cases are skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
exec python3 -B scripts/interop/manifests.py
