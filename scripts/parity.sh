#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Asks torchrun again: runs the cases of tests/interop/parity (all, or those named) under PyTorch's own
# launcher, that of each version or of DDPRUN_TORCH_PYTHON alone, writes its answers down, then holds this
# build's ddprun beside them. `git diff` shows what torchrun answers otherwise than it did. A case takes
# seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

build release-tests ddprun
parity() { python3 tests/interop/parity/parity.py "$@"; }
given=${DDPRUN_TORCH_PYTHON:-}
asked=()
for version in "${torch_versions[@]}"; do
    if [ -n "$given" ]; then
        has_torch "$given" "$version" || continue
    else
        provide_torch "$version" || die 1 "PyTorch $version cannot be installed"
    fi
    parity record "$version" "$(dirname "$DDPRUN_TORCH_PYTHON")/torchrun" "$@"
    asked+=("$version")
done
[ ${#asked[@]} -gt 0 ] || die 2 "$given has no PyTorch ${torch_versions[*]}"
parity check build/release/bin/ddprun "$@"
