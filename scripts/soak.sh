#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Random lives of simulated clusters, on all cores, for MINUTES (10 if not given) or until one breaks
# a rule: then its seed and the end of its record are printed, and the exit code is 1.
# DDPRUN_SEED=N begins with that seed instead of a random one.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

minutes=${1:-10}
[[ $minutes =~ ^[0-9]+$ ]] || die 2 "usage: scripts/soak.sh [MINUTES]"

require_packages "${build_packages[@]}" doctest-dev
cmake --preset release-tests >/dev/null
cmake --build --preset release-tests --target ddprun_sim >&2

batch=250
next=${DDPRUN_SEED:-$((RANDOM * 32768 * 32768 + RANDOM * 32768 + RANDOM))}
first=$next
logs=$(mktemp -d)
declare -A running=() # pid -> first seed of its batch
finish() {
    for pid in "${!running[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
    rm -rf "$logs"
}
trap finish EXIT
trap 'exit 130' INT TERM

begin_batch() {
    DDPRUN_SEED=$next DDPRUN_SEEDS=$batch build/release/bin/ddprun_sim \
        --no-skip --test-case='*soak*' --abort-after=1 >"$logs/$next" 2>&1 &
    running[$!]=$next
    next=$((next + batch))
}

say "seeds from $first on, $(nproc) at a time, for $minutes min"
ends=$((SECONDS + minutes * 60))
lived=0
reported=0
while [ "$SECONDS" -lt "$ends" ] || [ ${#running[@]} -gt 0 ]; do
    while [ "$SECONDS" -lt "$ends" ] && [ ${#running[@]} -lt "$(nproc)" ]; do begin_batch; done
    status=0
    wait -n -p ended "${!running[@]}" || status=$?
    seed=${running[$ended]}
    unset "running[$ended]"
    if [ "$status" != 0 ]; then
        [ ! -t 2 ] || printf '\n' >&2
        cat "$logs/$seed"
        bad=$(sed -n 's/.*DDPRUN_SEED=\([0-9]*\) gives this again.*/\1/p' "$logs/$seed" | head -n 1)
        say "after $lived lives; replay: DDPRUN_SEED=${bad:-$seed} build/release/bin/ddprun_sim --no-skip -tc='*soak*'"
        exit 1
    fi
    rm -f "$logs/$seed"
    lived=$((lived + batch))
    # One line that moves on a terminal, one every minute elsewhere.
    if [ -t 2 ]; then
        printf '\r%d lives, %d s left ' "$lived" "$((ends > SECONDS ? ends - SECONDS : 0))" >&2
    elif [ $((SECONDS / 60)) -gt "$reported" ]; then
        reported=$((SECONDS / 60))
        say "$lived lives after $reported min"
    fi
done
[ ! -t 2 ] || printf '\n' >&2
say "$lived lives broke no rule"
