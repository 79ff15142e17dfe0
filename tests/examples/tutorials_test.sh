#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tutorials_test.sh BIN: runs every tutorial as its first lines say, and looks at what it writes.
set -uo pipefail
bin=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
failures=0

# expect NAME RANKS PATTERN ARGUMENT...: each rank writes one line that matches, all in the same words.
expect() {
    local name=$1 ranks=$2 pattern=$3 out
    shift 3
    if ! out=$("$bin/ddprun" --standalone --nproc-per-node="$ranks" --no-python "$bin/tutorial_$name" "$@" 2>&1); then
        printf 'tutorial_%s failed:\n%s\n' "$name" "$out"
        failures=$((failures + 1))
        return
    fi
    for rank in $(seq 0 $((ranks - 1))); do
        grep -qE "^${pattern//RANK/$rank}\$" <<<"$out" && continue
        printf 'tutorial_%s: no line "%s" in:\n%s\n' "$name" "${pattern//RANK/$rank}" "$out"
        failures=$((failures + 1))
    done
}

expect hello_ranks 3 'hello from rank RANK of 3, local rank RANK'
expect hello_ranks 3 'rank RANK was greeted from [012]'
expect all_reduce 3 'rank RANK: sum 6, largest rank 2'
expect toy_ddp 2 'rank RANK: y = 2\.00 x \+ -1\.00'
expect save_and_load 2 'rank RANK: step 100, 50' "$place/saved"
rm "$place"/saved/*100*
expect save_and_load 2 '(begin at step 75|rank 1: step 100, 50)' "$place/saved"
expect model_parallel 2 'rank RANK: u \* v = 3\.00'
expect accumulate 2 'rank RANK: w = 1\.50'
expect uneven 3 'rank RANK: [234]0 batches, w = [45]\.[0-9]+ as on rank 2'
expect balanced 3 'rank 0: a smaller share, every sample once in each epoch, epochs of .*'
expect balanced 3 '(rank 0: a smaller|rank RANK: a larger) share, every sample once in each epoch, epochs of .*'
expect many_devices 2 'rank RANK with 3 devices: w = 2\.50'
expect plain_c 2 'rank RANK of 2: average 9\.5'
exit $((failures > 0))
