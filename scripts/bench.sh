#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/bench.sh all|NAME... [--check] [--markdown]: measures ddprun beside its peers, prints one table of
# medians and ratios, and writes build/bench/NAME.json. --check: exit 1 when a target is missed.
# --markdown: then writes the headline figures of build/bench/*.json into README.md; without a name only this.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

known_names=(launch ssh memory restart warm reform output store security rendezvous allreduce hosts ddp channel)
names=()
check=
markdown=no
usage="usage: scripts/bench.sh all|NAME... [--check] [--markdown]; names: ${known_names[*]}"
for word in "$@"; do
    case $word in
    --check) check=--check ;;
    --markdown) markdown=yes ;;
    all) names=("${known_names[@]}") ;;
    *)
        [[ " ${known_names[*]} " == *" $word "* ]] || die 2 "unknown: $word; $usage"
        names+=("$word")
        ;;
    esac
done
[ ${#names[@]} -gt 0 ] || [ $markdown = yes ] || die 2 "$usage"
[ ${#names[@]} -gt 0 ] || [ -z "$check" ] || die 2 "--check needs a name; $usage"

status=0
if [ ${#names[@]} -gt 0 ]; then
    require_packages "${build_packages[@]}" "${test_packages[@]}" python3-venv
    build release-tests
    provide_torch || say "PyTorch $torch_version cannot be installed: its rows say so"
    python3 tests/bench/run_benches.py build/release/bin build/bench "${names[@]}" $check || status=$?
fi
# Figures of a run that was cut off are not for the first page.
if [ $markdown = yes ] && [ "$status" != 130 ]; then
    python3 tests/bench/run_benches.py --markdown README.md build/bench
fi
exit "$status"
