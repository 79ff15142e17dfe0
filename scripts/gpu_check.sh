#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/gpu_check.sh [BUILD [OPTION...]]: every check that needs a GPU, in under ten minutes unattended;
# a table at the end, and all logs in a folder (tests/gpu/gpu_check.py has the options). Without BUILD
# (build/release, say) release-tests is built first; scripts/gpu_pack.sh packs what a machine needs that
# builds nothing. Exits 0, 1 when a check failed, 77 with one line where something is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

status=0
timeout -k 5 60 python3 tests/gpu/gpu_check.py --probe || status=$?
[ $status != 124 ] || die 1 "the CUDA driver does not answer"
[ $status = 0 ] || exit $status
if [ $# = 0 ]; then
    require_packages "${build_packages[@]}" "${test_packages[@]}"
    # Headers for what is built with them; a machine without a network may have its own.
    scripts/cuda_deps.sh || say "some of NVIDIA's libraries cannot be fetched: what they are missing for is left out"
    build release-tests
fi
exec python3 tests/gpu/gpu_check.py "${1:-build/release}" "${@:2}"
