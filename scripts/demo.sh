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
# With the SDK's shared library `cmake --install build/release` has all that it installs.
build release programs ddprun_worker ddprun_worker_shared train_mnist make_digits compare_checkpoints

say "== painting digits"
rm -rf "$place"
mkdir -p "$place"
"$bin"/make_digits --out "$place"/digits

train() { # CHECKPOINT_FOLDER
    exec "$bin"/ddprun --standalone --nproc-per-node=$workers --max-restarts=3 \
        "$bin"/train_mnist --data "$place"/digits --epochs "$epochs" --checkpoint-dir "$1"
}

# Every process below the one given, children before grandchildren, in the array "found". The shell alone
# reads them: on a busy machine a program that is started for each process comes too late.
find_descendants() { # PID
    local list child children
    for list in /proc/"$1"/task/*/children; do
        children=()
        { read -r -a children <"$list"; } 2>/dev/null || true # the list ends without a newline
        for child in "${children[@]}"; do
            found+=("$child")
            find_descendants "$child"
        done
    done
}

# The workers of the job in the array "victims".
find_workers() { # JOB
    local found=() process name
    find_descendants "$1"
    victims=()
    for process in "${found[@]}"; do
        { read -r name </proc/"$process"/comm; } 2>/dev/null || continue
        if [ "$name" = train_mnist ]; then victims+=("$process"); fi
    done
}

say "== training with $workers workers, undisturbed"
(train "$place"/undisturbed) 2>&1 | tee "$place"/undisturbed.log

say "== the same again, and one worker is killed on the way"
exec {output}< <(train "$place"/disturbed 2>&1)
job=$!
trap 'kill $job 2>/dev/null || true' EXIT
ranks=0
victims=()
killed=
while IFS= read -r line <&$output; do
    echo "$line"
    echo "$line" >&3
    case $line in
        "rank "*" of $workers: "*)
            ranks=$((ranks + 1))
            if [ $ranks = $workers ]; then find_workers $job; fi
            ;;
        "epoch 3/"*)
            [ -z "$killed" ] || continue
            [ ${#victims[@]} = $workers ] || die 1 "found ${#victims[@]} workers, not $workers"
            killed=${victims[2]}
            kill -KILL "$killed" || die 1 "the job ended before it could be disturbed"
            say "== SIGKILL to worker $killed"
            ;;
    esac
done 3>"$place"/disturbed.log

wait $job || die 1 "the disturbed job failed with exit code $?"
trap - EXIT
[ -n "$killed" ] || die 1 "the job ended before it could be disturbed"

restarts=$(grep -c "^rank 0 of $workers:" "$place"/disturbed.log)
[ "$restarts" = 2 ] || die 1 "the disturbed job started $restarts times, not twice"
"$bin"/compare_checkpoints "$place"/undisturbed "$place"/disturbed >&2 ||
    die 1 "the parameters differ from the undisturbed run"
grep -E '^test accuracy [0-9]+\.[0-9]{2} %$' "$place"/disturbed.log | tail -n 1
echo "parameters identical to the undisturbed run"
