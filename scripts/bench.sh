#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/bench.sh NAME [--check]: measures NAME beside its peer, prints a table of medians and
# ratios, and writes build/bench/NAME.json. --check: exit 1 when a target is missed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

names=(allreduce ddp launch memory output reform rendezvous restart store)
name=${1:-}
check=${2:-}
is_known=no
for known in "${names[@]}"; do [ "$name" = "$known" ] && is_known=yes; done
[ "$is_known" = yes ] || die 2 "usage: scripts/bench.sh NAME [--check]; names: ${names[*]}"
[ -z "$check" ] || [ "$check" = --check ] || die 2 "unknown option $check; accepted is --check"

require_packages "${build_packages[@]}" "${test_packages[@]}" python3-venv
mkdir -p build/bench
build release-tests
provide_torch || say "PyTorch $torch_version cannot be installed: its rows are left out"
exec python3 tests/bench/"$name".py build/release/bin build/bench/"$name".json $check
