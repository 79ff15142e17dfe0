#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Can the simulator fail? Each of tests/sim/mutations/*.patch breaks one rule in a copy of the tree;
# random lives must find it within the seeds that the patch names. Prints a table; fails if one is
# not found. NAME...: only these. --few: one for each checker, those that are found at once.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

top=$PWD
copy=$top/build/mutations/tree
binary=$copy/build/sim/bin/ddprun_sim
log=$top/build/mutations/log
longest_run=300 # seconds of processor time: a life that does not end is found, too

few=(rank_given_twice drain_forgets_one budget_spent_twice jobs_mixed_up result_for_a_join voters_change_in_one_step)

names=("$@")
if [ "${1:-}" = --few ]; then
    names=("${few[@]}")
elif [ ${#names[@]} = 0 ]; then
    for patch in tests/sim/mutations/*.patch; do names+=("$(basename "$patch" .patch)"); done
fi

# Only what has changed, so that the next build is a small one.
copy_tree() {
    mkdir -p "$copy" "$log"
    git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
        [ -f "$file" ] || continue
        cmp -s "$file" "$copy/$file" || { mkdir -p "$copy/$(dirname "$file")" && cp "$file" "$copy/$file"; }
    done
}

build_sim() { # LOG
    [ -f "$copy/build/sim/build.ninja" ] ||
        # A compiler cache then has all but what is mutated.
        (cd "$copy" && cmake --preset release-tests -B build/sim -DDDPRUN_EXAMPLES=OFF) >"$1" 2>&1 || return
    cmake --build "$copy/build/sim" --target ddprun_sim >"$1" 2>&1
}

live() { # SEEDS LOG LIVES
    (
        ulimit -t "$longest_run"
        DDPRUN_SEED=1 DDPRUN_SEEDS=$1 exec "$binary" --no-skip --test-case="$3*" --abort-after=1
    ) >"$2" 2>&1
}

# Of fixed servers, unless the patch has a line "Lives: elected" or "Lives: voted".
lives_of() {
    local kind
    kind=$(sed -n 's/^Lives: //p' "tests/sim/mutations/$1.patch")
    echo "${kind:+$kind }soak"
}

seeds_of() { sed -n 's/^Seeds: //p' "tests/sim/mutations/$1.patch"; }

row() { printf '%-34s %-9s %6s %6s  %s\n' "$@"; }

copy_tree
build_sim "$log/unchanged.build" || { tail -20 "$log/unchanged.build" >&2; die 1 "the simulator does not build"; }
declare -A most=()
for name in "${names[@]}"; do
    [ -f "tests/sim/mutations/$name.patch" ] || die 2 "no such mutation: $name"
    lives=$(lives_of "$name")
    [ "$(seeds_of "$name")" -le "${most[$lives]:-0}" ] || most[$lives]=$(seeds_of "$name")
done
for lives in "${!most[@]}"; do
    live "${most[$lives]}" "$log/unchanged" "$lives" ||
        { tail -80 "$log/unchanged" >&2; die 1 "the unchanged tree breaks a rule"; }
done

row mutation found seed of "by what"
survivors=0
for name in "${names[@]}"; do
    patch=$top/tests/sim/mutations/$name.patch
    patch --quiet --strip=1 --directory="$copy" <"$patch" || die 1 "$name does not apply: see its page"
    if ! build_sim "$log/$name.build"; then
        tail -20 "$log/$name.build" >&2
        die 1 "$name does not build"
    fi
    if live "$(seeds_of "$name")" "$log/$name" "$(lives_of "$name")"; then
        survivors=$((survivors + 1))
        row "$name" NO - "$(seeds_of "$name")" "$(head -n 1 "$patch")"
    else
        seed=$(sed -n 's/.*DDPRUN_SEED=\([0-9]*\) gives this again.*/\1/p' "$log/$name" | head -n 1)
        what=$(sed -n 's/.*values: CHECK( \(.*\) == *).*/\1/p; s/^ddprun: internal error: //p' "$log/$name" | head -n 1)
        row "$name" yes "${seed:-?}" "$(seeds_of "$name")" "${what:-it hangs}"
    fi
    patch --quiet --strip=1 --reverse --directory="$copy" <"$patch"
done
[ "$survivors" = 0 ] || die 1 "$survivors not found: a checker is missing, or the rule is of no use"
