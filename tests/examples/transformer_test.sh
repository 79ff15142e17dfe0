#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# transformer_test.sh BIN: train_transformer learns; the losses depend neither on the number of ranks nor on the passes
# per step; and it refuses what does not fit, with the options to change. Killed ranks: tests/chaos/elastic_training.py.
set -uo pipefail
bin=$1
small=(--characters 20000 --context 32 --width 32 --heads 2 --layers 1 --batch 12 --epochs 3)
failures=0

fail() {
    printf '%s\n' "$@"
    failures=$((failures + 1))
}

train() { # RANKS OPTION...
    local ranks=$1
    shift
    "$bin/ddprun" --standalone --nproc-per-node="$ranks" --no-python "$bin/train_transformer" "${small[@]}" "$@"
}

losses() { train "$@" 2>/dev/null | sed -n 's/^epoch \([0-9]*\) loss \([0-9.]*\): 624 windows, each once$/\1 \2/p'; }

alone=$(losses 1)
awk '{ if (NR == 1) first = $2; last = $2 } END { exit !(NR == 3 && last * 1.5 < first) }' <<<"$alone" ||
    fail "one rank does not learn:" "$alone"
others=$(losses 5 --passes 2)
paste <(echo "$alone") <(echo "$others") |
    awk '{ d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || d > 0.002 * $2) exit 1 }' ||
    fail "five ranks with two passes each:" "$others" "alone:" "$alone"

refuses() { # WORDS RANKS OPTION...
    local words=$1 said
    shift
    said=$(train "$@" 2>&1) && fail "$* was accepted"
    [[ $said == *"$words"* ]] || fail "$*: '$words' is missing:" "$said"
}
refuses "--batch is for all ranks together: there are 3 ranks, and --batch is 2" 3 --batch 2
refuses "a step needs 700 (--batch)" 1 --batch 700
refuses "--heads must divide --width" 1 --heads 5
exit $((failures > 0))
