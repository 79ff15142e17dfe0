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

for file in LICENSE NOTICE THIRD-PARTY-LICENSES; do
    for package in ddprun libddprun-dev; do
        [ -s "$prefix/share/doc/$package/$file" ] || { echo "share/doc/$package/$file was not installed"; exit 1; }
    done
done
completes() { # PROGRAM WORD_OF_THE_PROGRAM WORD_OF_THE_SHELL FILE
    for word in "$1" "$2" "$3"; do
        grep -q -- "$word" "$prefix/share/$4" || { echo "share/$4 lacks '$word'"; exit 1; }
    done
}
for program in 'ddprun max-restarts' 'ddprunctl undrain'; do
    # shellcheck disable=SC2086  # two words
    set -- $program
    completes "$1" "$2" 'complete .*-F' "bash-completion/completions/$1"
    completes "$1" "$2" '#compdef' "zsh/site-functions/_$1"
    completes "$1" "$2" 'complete -c' "fish/vendor_completions.d/$1.fish"
done

# No time is measured of what is compiled here.
quickly=(-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0)
for example in "$source_dir"/examples/*/CMakeLists.txt; do
    example=$(dirname "$example")
    name=$(basename "$example")
    "$cmake" -S "$example" -B "$place/$name" -G Ninja "${quickly[@]}" \
        -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
    "$cmake" --build "$place/$name" -- -j 1
done

"$prefix/bin/ddprun" --version
"$prefix/bin/ddprunctl" --version
out=$("$prefix/bin/ddprun" --standalone --nproc-per-node=2 --no-python "$place/thirty_lines/thirty_lines" 2>&1) || {
    printf '%s\n' "$out"
    exit 1
}

# The shared library shows the public interface and nothing of what it is made of.
leaked=$(nm -D --defined-only "$prefix"/lib*/libddprun_worker.so | c++filt | cut -d' ' -f3- |
    sed -E 's/^(typeinfo( name)? for|vtable for|non-virtual thunk to) //' |
    grep -vE '^(ddprun_[a-z_]+$|ddprun::)' || true)
if [ -n "$leaked" ]; then
    printf 'libddprun_worker.so exports symbols that are not public:\n%s\n' "$leaked" | head -20
    exit 1
fi

# A C program without CMake, moved away from where it was built.
if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH
    # pkg-config quotes a space in some flags and not in others: it gets a name without one.
    link=$(mktemp -d)
    trap 'rm -r "$link"' EXIT
    ln -s "$prefix" "$link/prefix"
    PKG_CONFIG_PATH=$(echo "$link"/prefix/lib*/pkgconfig)
    for package in ddprun ddprun-static; do
        # shellcheck disable=SC2046  # flags are words
        cc -std=c11 "$source_dir/examples/tutorials/plain_c.c" -o "$place/plain_c" $(pkg-config --cflags --libs $package)
        "$prefix/bin/ddprun" --standalone --nproc-per-node=2 --no-python "$place/plain_c" > "$place/plain_c.out"
        grep -q 'rank 1 of 2: average 9.5' "$place/plain_c.out"
        needs_library=no
        ! readelf -d "$place/plain_c" | grep -q 'NEEDED.*libddprun_worker' || needs_library=yes
        [ $needs_library = yes ] || [ $package = ddprun-static ] || { echo "$package links no shared library"; exit 1; }
        [ $needs_library = no ] || [ $package = ddprun ] || { echo "$package links the shared library"; exit 1; }
    done
else
    echo "SKIP pkg-config: not installed"
fi

# As part of another project, which compiles the SDK once more.
"$cmake" -S "$source_dir/tests/package/fetched" -B "$place/fetched" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
    "${quickly[@]}" -DCMAKE_UNITY_BUILD=ON -DDDPRUN_SOURCE="$source_dir" >/dev/null
"$cmake" --build "$place/fetched" --target trainer -- -j 1
trainer=$(find "$place/fetched" -name trainer -type f)
out=$("$prefix/bin/ddprun" --standalone --nproc-per-node=2 --no-python "$trainer" 2>&1) || {
    printf '%s\n' "$out"
    exit 1
}

"$cmake" --build "$build_dir" --target uninstall >/dev/null
left=$(find "$prefix" ! -type d)
[ -z "$left" ] || {
    printf 'left after uninstall:\n%s\n' "$left"
    exit 1
}
