#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the programs as they are shipped, with the tests, and runs every test this machine can. --all: also
# against PyTorch and NCCL, installed under build/. --build: only installs and builds. Skips are said with
# their reason; the last line is "N passed, N failed, N skipped".
# DDPRUN_REQUIRE_TORCH=1: what would be skipped for want of PyTorch or of root fails instead.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

with_torch=no
case "${1:-}" in
    --all) with_torch=yes ;;
    --build | "") ;;
    *) die 2 "usage: scripts/test.sh [--all | --build]" ;;
esac

if [ "$with_torch" = yes ]; then
    require_packages "${build_packages[@]}" "${test_packages[@]}" "${all_packages[@]}"
else
    require_packages "${build_packages[@]}" "${test_packages[@]}"
fi
# NVIDIA's headers for the CUDA parts of the examples, and NCCL's library, which makes ids without a GPU.
if [ "$with_torch" = yes ] && ! scripts/cuda_deps.sh; then
    say "without NVIDIA's libraries: no registry that has them can be reached"
fi
build release-tests
[ "${1:-}" != --build ] || exit 0

if [ "$with_torch" = no ]; then
    unset DDPRUN_TORCH_PYTHON
    say "without PyTorch (--all brings it)"
elif ! provide_torch; then
    [ "${DDPRUN_REQUIRE_TORCH:-0}" != 1 ] || die 1 "PyTorch $torch_version cannot be installed"
    say "PyTorch $torch_version cannot be installed: no registry that has it can be reached"
fi
if [ -n "${DDPRUN_TORCH_PYTHON:-}" ] && ! provide_frameworks tests/interop/frameworks/requirements.txt; then
    [ "${DDPRUN_REQUIRE_TORCH:-0}" != 1 ] || die 1 "the frameworks on PyTorch cannot be installed"
    unset DDPRUN_FRAMEWORKS_PYTHON
    say "without the frameworks on PyTorch: no registry that has them can be reached"
fi

report=$PWD/build/test-report.xml
rm -f "$report"
status=0
ctest --preset release-tests --output-junit "$report" || status=$?
[ -f "$report" ] || die 1 "ctest wrote no report"
awk -f scripts/report.awk "$report"
exit "$status"
