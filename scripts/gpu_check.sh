#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/gpu_check.sh [BUILD [--only=WORDS]]: every check that needs a GPU, or those whose names have
# these words, in under ten minutes unattended; a table at the end (tests/gpu/gpu_check.py
# says more). Without BUILD (build/release, say) release-tests is built first. Exits 0, 1 when a check
# failed, 77 with one line where something is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

[ $# -le 2 ] || die 2 "usage: scripts/gpu_check.sh [BUILD [--only=WORDS]]"
python3 tests/gpu/gpu_check.py --probe || exit $?
if [ $# = 0 ]; then
    require_packages "${build_packages[@]}" "${test_packages[@]}"
    # Headers for what is built with them; a machine without a network may have its own.
    scripts/cuda_deps.sh || say "some of NVIDIA's libraries cannot be fetched: what they are missing for is left out"
    build release-tests
fi
exec python3 tests/gpu/gpu_check.py "${1:-build/release}" "${@:2}"
