#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Brings the CUDA libraries that a CUDA toolkit does not have: headers to build with, libraries to
# load at run time, each pinned and checked, into build/cuda-deps/PART/{include,lib}. Without
# arguments all parts; what is there already is left alone, and then no network is needed.
# Exits 1 when a part cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

into=$PWD/build/cuda-deps

# part  package  version  folder inside the package  header with the version, and its macros
# (what the macros say, put together by dots, must begin the version)
parts() {
    cat <<'TABLE'
nccl   nvidia-nccl-cu13  2.28.9     nvidia/nccl  nccl.h           NCCL_MAJOR NCCL_MINOR NCCL_PATCH
cublas nvidia-cublas     13.1.0.3   nvidia/cu13  cublas_api.h     CUBLAS_VER_MAJOR CUBLAS_VER_MINOR CUBLAS_VER_PATCH
cudnn  nvidia-cudnn-cu13 9.19.0.56  nvidia/cudnn cudnn_version.h  CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL
TABLE
}

# For x86_64 and aarch64, as pip wants them.
hashes() { # PACKAGE
    case $1 in
        nvidia-nccl-cu13)
            echo --hash=sha256:e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42
            echo --hash=sha256:01c873ba1626b54caa12272ed228dc5b2781545e0ae8ba3f432a8ef1c6d78643 ;;
        nvidia-cublas)
            echo --hash=sha256:ee8722c1f0145ab246bccb9e452153b5e0515fd094c3678df50b2a0888b8b171
            echo --hash=sha256:c86fc7f7ae36d7528288c5d88098edcb7b02c633d262e7ddbb86b0ad91be5df2 ;;
        nvidia-cudnn-cu13)
            echo --hash=sha256:d20e1734305e9d68889a96e3f35094d733ff1f83932ebe462753973e53a572bf
            echo --hash=sha256:6ed29ffaee1176c612daf442e4dd6cfeb6a0caa43ddcbeb59da94953030b1be4 ;;
    esac
}

# A python with pip: the system's, else a virtual environment for it.
python_with_pip() {
    if python3 -m pip --version >/dev/null 2>&1; then
        echo python3
    elif [ -x "$into/venv/bin/python" ] || python3 -m venv "$into/venv" >&2; then
        echo "$into/venv/bin/python"
    else
        die 1 "python3 has neither pip nor venv (Debian: python3-venv)"
    fi
}

macro() { # HEADER NAME
    awk -v name="$2" '$1 == "#define" && $2 == name { print $3; exit }' "$1"
}

version_in() { # HEADER MACRO...
    local header=$1 version='' name
    shift
    for name in "$@"; do version+=${version:+.}$(macro "$header" "$name"); done
    echo "$version"
}

fetch() { # PART PACKAGE VERSION FOLDER HEADER MACRO...
    local part=$1 package=$2 version=$3 folder=$4 header=$5 python platforms=() glibc
    shift 5
    say "fetching $package $version"
    python=$(python_with_pip)
    work=$(mktemp -d "$into/$part.XXXXXX")
    echo "$package==$version $(hashes "$package" | tr '\n' ' ')" >"$work/requirements.txt"
    # Said, because they depend on no Python and a musl or an older pip would not take them.
    for glibc in 2014 _2_17 _2_18 _2_27 _2_28; do
        platforms+=(--platform "manylinux${glibc}_$(uname -m)")
    done
    "$python" -m pip download --quiet --no-deps --only-binary :all: "${platforms[@]}" \
        --require-hashes -r "$work/requirements.txt" -d "$work" >&2 || return 1
    "$python" -m zipfile -e "$work"/*.whl "$work/unpacked"
    local said
    said=$(version_in "$work/unpacked/$folder/include/$header" "$@")
    [[ "$version." == "$said."* ]] || {
        say "$package $version: its $header says $said"
        return 1
    }
    rm -rf "${into:?}/$part"
    mv "$work/unpacked/$folder" "$into/$part"
    echo "$version" >"$into/$part/VERSION"
    rm -rf "$work"
    say "$part $version is in build/cuda-deps/$part"
}

provide() { # PART
    local row
    row=$(parts | awk -v part="$1" '$1 == part')
    [ -n "$row" ] || die 2 "usage: scripts/cuda_deps.sh [nccl] [cublas] [cudnn]"
    # shellcheck disable=SC2086 # a row of words
    set -- $row
    if [ "$(cat "$into/$1/VERSION" 2>/dev/null)" = "$3" ]; then
        say "$1 $3 is in build/cuda-deps/$1 already"
        return 0
    fi
    fetch "$@" || {
        say "$2 $3 cannot be had (no registry that has it can be reached, or it is not what was pinned)"
        return 1
    }
}

work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
mkdir -p "$into"
# shellcheck disable=SC2046 # a list of words
[ $# -gt 0 ] || set -- $(parts | awk '{ print $1 }')
for part in "$@"; do provide "$part"; done
