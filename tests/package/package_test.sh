#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# package_test.sh SOURCE BUILD COMPILER CMAKE: installs BUILD into a folder of its own, builds each
# example alone against it, and runs one under the installed ddprun.
set -euo pipefail
source_dir=$1 build_dir=$2 compiler=$3 cmake=$4
place=$build_dir/package
prefix=$place/prefix

rm -rf "$prefix"
"$cmake" --install "$build_dir" --prefix "$prefix" >/dev/null

for example in "$source_dir"/examples/*/CMakeLists.txt; do
    example=$(dirname "$example")
    name=$(basename "$example")
    "$cmake" -S "$example" -B "$place/$name" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
        -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
    "$cmake" --build "$place/$name" -- -j 1
done

"$prefix/bin/ddprun" --version
out=$("$prefix/bin/ddprun" --standalone --nproc-per-node=2 --no-python "$place/thirty_lines/thirty_lines" 2>&1) || {
    printf '%s\n' "$out"
    exit 1
}

"$cmake" --build "$build_dir" --target uninstall >/dev/null
left=$(find "$prefix" ! -type d)
[ -z "$left" ] || {
    printf 'left after uninstall:\n%s\n' "$left"
    exit 1
}
