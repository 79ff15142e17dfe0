#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# two_gloos_test.sh BUILD torch|ddprun: two ranks under ddprun, each with both libraries; the second
# argument says which is loaded first.
set -euo pipefail
build=$1 first=$2
if [ -z "${DDPRUN_TORCH_PYTHON:-}" ]; then
    echo "SKIP two Gloos: DDPRUN_TORCH_PYTHON names no Python with PyTorch"
    [ "${DDPRUN_REQUIRE_TORCH:-}" != 1 ]
    exit
fi
script=$(dirname "$0")/both.py
"$build/bin/ddprun" --standalone --nproc-per-node=2 --no-python \
    "$DDPRUN_TORCH_PYTHON" "$script" "$build/lib/libddprun_worker.so" "$first"
