#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel_test.sh BIN: the parallel examples learn; where a model is divided, the losses do not
# depend on how.
set -uo pipefail
bin=$1
failures=0

fail() {
    printf '%s\n' "$@"
    failures=$((failures + 1))
}

# losses RANKS PROGRAM ARGUMENT...: "STEP LOSS" lines.
losses() {
    local ranks=$1 program=$2
    shift 2
    "$bin/ddprun" --standalone --nproc-per-node="$ranks" --no-python "$bin/$program" "$@" 2>/dev/null |
        sed -n 's/^step \([0-9]*\) loss /\1 /p'
}

# learns CURVE FACTOR: ten lines, and the last loss is at most the first one's divided by the factor.
learns() {
    awk -v factor="$2" '{ if (NR == 1) first = $2; last = $2 }
        END { exit !(NR == 10 && last > 0 && last * factor <= first) }' <<<"$1"
}

# near CURVE OTHER: equal but for the order of additions.
near() {
    paste <(echo "$1") <(echo "$2") |
        awk '{ d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || d > 0.0005 + 0.01 * $2) exit 1 }'
}

alone=$(losses 1 tensor_parallel)
learns "$alone" 4 || fail "tensor_parallel on one rank does not learn:" "$alone"
for division in "2 2" "2 1" "4 2"; do
    read -r ranks per_model <<<"$division"
    curve=$(losses "$ranks" tensor_parallel "$per_model")
    near "$alone" "$curve" || fail "tensor_parallel: $ranks ranks, $per_model per model:" "$curve" "alone:" "$alone"
done

alone=$(losses 1 pipeline_parallel)
learns "$alone" 4 || fail "pipeline_parallel on one rank does not learn:" "$alone"
for ranks in 2 4; do
    curve=$(losses "$ranks" pipeline_parallel)
    [[ $curve == "$alone" ]] || fail "pipeline_parallel: $ranks ranks:" "$curve" "alone:" "$alone"
done
alone=$(losses 1 three_ways)
learns "$alone" 4 || fail "three_ways on one rank does not learn:" "$alone"
for division in "2 2 1" "2 1 2" "8 2 2"; do
    read -r ranks per_block stages <<<"$division"
    curve=$(losses "$ranks" three_ways "$per_block" "$stages")
    near "$alone" "$curve" || fail "three_ways: $ranks ranks, $per_block a block, $stages stages:" "$curve" "alone:" "$alone"
done
for ranks in 2 4; do
    curve=$(losses "$ranks" parameter_server)
    learns "$curve" 4 || fail "parameter_server: $ranks ranks:" "$curve"
done
exit $((failures > 0))
