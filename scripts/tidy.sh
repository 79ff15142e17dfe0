#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy over the files that differ from main, or over all with --all (a quarter of an hour),
# and clang-format over the same.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

command -v clang-tidy-19 >/dev/null || die 3 "clang-tidy-19 is missing (package clang-tidy-19)"
if [ "${1:-}" = --all ]; then
    mapfile -t files < <(git ls-files '*.cpp')
else
    base=$(git merge-base HEAD "${1:-main}")
    mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- '*.cpp'
        git ls-files --others --exclude-standard -- '*.cpp')
fi
[ ${#files[@]} -gt 0 ] || die 0 "nothing to look at"

clang-format --dry-run --Werror "${files[@]}"
build tidy ddprun_base # configures; one target, so that generated headers exist
printf '%s\0' "${files[@]}" |
    xargs -0 -n 1 -P "$(nproc)" clang-tidy-19 --quiet -p build/tidy --warnings-as-errors='*'
