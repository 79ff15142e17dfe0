#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sharded_test.sh BIN: train_sharded learns; the losses depend neither on the number of ranks nor on a change of it between
# two epochs; and each rank has its part of the optimizer's state.
set -uo pipefail
bin=$1
small=(--characters 20000 --context 32 --width 32 --layers 1 --batch 12)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

fail() {
    printf '%s\n' "$@"
    failures=$((failures + 1))
}

train() { # RANKS OPTION...
    local ranks=$1
    shift
    "$bin/ddprun" --standalone --nproc-per-node="$ranks" --no-python "$bin/train_sharded" "${small[@]}" "$@"
}

losses() { sed -n 's/^epoch \([0-9]*\) loss \([0-9.]*\), .*/\1 \2/p'; }
same() { # LOSSES LOSSES: within 0.2 %
    paste <(echo "$1") <(echo "$2") |
        awk '{ d = $2 - $4; if (d < 0) d = -d; if (NF != 4 || $1 != $3 || d > 0.002 * $2) exit 1 }'
}

alone_said=$(train 1 --epochs 3 2>/dev/null)
alone=$(losses <<<"$alone_said")
awk '{ if (NR == 1) first = $2; last = $2 } END { exit !(NR == 3 && last * 1.3 < first) }' <<<"$alone" ||
    fail "one rank does not learn:" "$alone_said"
four_said=$(train 4 --epochs 3 2>/dev/null)
same "$alone" "$(losses <<<"$four_said")" || fail "four ranks:" "$four_said" "alone:" "$alone"

bytes() { sed -n 's/.*, \([0-9]*\) bytes of state.*/\1/p' <<<"$1" | head -1; }
# A quarter, and less than an eighth more for parts of equal size.
awk -v one="$(bytes "$alone_said")" -v four="$(bytes "$four_said")" \
    'BEGIN { exit !(one > 0 && four * 4 >= one && four * 4 < one * 1.125) }' ||
    fail "the state is not divided:" "$alone_said" "$four_said"

first=$(train 4 --epochs 1 --checkpoint-dir "$folder" 2>/dev/null)
second=$(train 3 --epochs 2 --checkpoint-dir "$folder" 2>/dev/null)
third=$(train 2 --epochs 3 --checkpoint-dir "$folder" 2>/dev/null)
[[ $second == *"resumed at epoch 1"* && $third == *"resumed at epoch 2"* ]] || fail "not resumed:" "$second" "$third"
changing=$(printf '%s\n' "$first" "$second" "$third" | losses)
same "$alone" "$changing" || fail "with 4, 3 and 2 ranks:" "$changing" "alone:" "$alone"

said=$(train 5 --epochs 1 2>&1) && fail "five ranks with --batch 12 were accepted"
[[ $said == *"--batch must be a multiple of the number of ranks"* ]] || fail "five ranks:" "$said"
exit $((failures > 0))
