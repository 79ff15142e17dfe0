#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lives of a job on three hosts (network namespaces: needs root), one after the other for MINUTES (10 if
# not given) or until one goes wrong: then its seed, its plan and the logs are printed, and the exit code
# is 1. DDPRUN_SEED=N begins with that seed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

minutes=${1:-10}
[[ $minutes =~ ^[0-9]+$ ]] || die 2 "usage: scripts/chaos.sh [MINUTES]"

require_packages "${build_packages[@]}" "${test_packages[@]}"
build release-tests ddprun ddprun-rendezvous ddprun_stub_counting_worker
exec python3 tests/chaos/chaos.py build/release $((minutes * 60)) ${DDPRUN_SEED:+"$DDPRUN_SEED"}
