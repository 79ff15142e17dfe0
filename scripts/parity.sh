#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Asks torchrun again: runs the cases of tests/interop/parity (all, or those named) under PyTorch's own
# launcher, writes its answers down, then holds this build's ddprun beside them. `git diff` shows what
# torchrun answers otherwise than it did. A case takes seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

provide_torch || die 1 "PyTorch $torch_version cannot be installed"
build dev ddprun
cd tests/interop/parity
python3 parity.py record "$(dirname "$DDPRUN_TORCH_PYTHON")/torchrun" "$@"
python3 parity.py check ../../../build/dev/bin/ddprun "$@"
