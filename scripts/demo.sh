#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds release, then trains digits with four workers: once undisturbed, once with a worker killed
# on the way. The job restarts, resumes from its checkpoint, and must end with the same parameters,
# bit for bit.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

workers=4
epochs=${DDPRUN_DEMO_EPOCHS:-10}
bin=build/release/bin
place=build/demo

require_packages "${build_packages[@]}"
say "== building release"
build release programs ddprun_gloo train_mnist make_digits compare_checkpoints

say "== painting digits"
rm -rf "$place"
mkdir -p "$place"
"$bin"/make_digits --out "$place"/digits

train() { # CHECKPOINT_FOLDER
    exec "$bin"/ddprun --standalone --nproc-per-node=$workers --max-restarts=3 \
        "$bin"/train_mnist --data "$place"/digits --epochs "$epochs" --checkpoint-dir "$1"
}

# Every process below the one given, children before grandchildren.
descendants() { # PID
    local child
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
        echo "$child"
        descendants "$child"
    done
}

# Waits for a line in a file while the process that writes it lives; 1 if it ended without.
wait_for_line() { # PATTERN FILE PID
    until grep -q "$1" "$2"; do
        kill -0 "$3" 2>/dev/null || return 1
        sleep 0.05
    done
}

say "== training with $workers workers, undisturbed"
(train "$place"/undisturbed) 2>&1 | tee "$place"/undisturbed.log

say "== the same again, and one worker is killed on the way"
: >"$place"/disturbed.log
(train "$place"/disturbed) >"$place"/disturbed.log 2>&1 &
job=$!
tail -n +1 -f --pid=$job "$place"/disturbed.log &
shown=$!
trap 'kill $job 2>/dev/null || true' EXIT

wait_for_line '^epoch 3/' "$place"/disturbed.log $job || die 1 "the job ended before it could be disturbed"
mapfile -t victims < <(for pid in $(descendants $job); do
    [ "$(cat /proc/"$pid"/comm 2>/dev/null)" = train_mnist ] && echo "$pid"
done)
[ ${#victims[@]} = $workers ] || die 1 "found ${#victims[@]} workers, not $workers"
say "== SIGKILL to worker ${victims[2]}"
kill -KILL "${victims[2]}"

wait $job || die 1 "the disturbed job failed with exit code $?"
trap - EXIT
wait $shown || true

restarts=$(grep -c "^rank 0 of $workers:" "$place"/disturbed.log)
[ "$restarts" = 2 ] || die 1 "the disturbed job started $restarts times, not twice"
"$bin"/compare_checkpoints "$place"/undisturbed "$place"/disturbed >&2 ||
    die 1 "the parameters differ from the undisturbed run"
grep -E '^test accuracy [0-9]+\.[0-9]{2} %$' "$place"/disturbed.log | tail -n 1
echo "parameters identical to the undisturbed run"
