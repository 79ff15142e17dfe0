#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Before a release: accelerate, lightning, transformers' Trainer and DeepSpeed, in the versions of
# tests/interop/frameworks, train on the CPU to the same losses under ddprun and under torchrun. Installs them under
# build/frameworks; takes four minutes on 2 cores. Those named, if any are.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

[ $# -gt 0 ] || set -- accelerate lightning trainer deepspeed
provide_torch || die 1 "PyTorch $torch_version cannot be installed"
build release-tests ddprun
requirements=tests/interop/frameworks/requirements
provide_frameworks $requirements.txt $requirements-all.txt $requirements-deepspeed.txt || die 1 "the frameworks cannot be installed"
python3 -B tests/interop/frameworks/frameworks_test.py "$PWD/build/release/bin/ddprun" "$@"
