# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts beside it, from the repository's root: packages, PyTorch, small words.

say() { printf '%s\n' "$*" >&2; }
die() { # CODE MESSAGE...
    local code=$1
    shift
    say "$@"
    exit "$code"
}

# ---- how long things take --------------------------------------------------------------------------

step_times=()
step= # the one that runs
step_began=0

step_row() { printf '%5d s  %s' $((SECONDS - step_began)) "$1"; }

timed() { # WHAT COMMAND...
    step=$1 step_began=$SECONDS
    shift
    say "== $step"
    "$@"
    step_times+=("$(step_row "$step")")
    step=
}

# Also where a step has failed.
print_times() {
    [ -z "$step" ] || step_times+=("$(step_row "$step: not completed")")
    step=
    printf '%s\n' "${step_times[@]}" "$(printf '%5d s  in all' "$SECONDS")" >&2
}

# ---- packages -----------------------------------------------------------------------------------

# OpenSSL's archives of newer releases are linked with zlib and zstd.
build_packages=(g++ cmake ninja-build nlohmann-json3-dev libcli11-dev libssl-dev zlib1g-dev libzstd-dev libeigen3-dev)
test_packages=(doctest-dev python3 iproute2 nftables)
all_packages=(python3-venv tcsh)
sanitizer_packages=(clang libclang-rt-dev lld)

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Boost 1.81 to 1.83, whichever this distribution has: its default may be older. Without package lists
# (no `apt-get update` yet) its name decides.
boost_package() {
    local version
    for version in 1.83 1.81; do
        is_installed "libboost$version-dev" && break
        [ -n "$(apt-cache search --names-only "^libboost$version-dev\$" 2>/dev/null)" ] && break
        version=
    done
    if [ -z "$version" ]; then
        version=1.83
        grep -qs '^VERSION_CODENAME=bookworm$' /etc/os-release && version=1.81
    fi
    printf 'libboost%s-dev\n' "$version"
}

# Whether packages can be installed without asking for a password.
may_install() { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# What a user without the right to install pastes, or hands to an administrator: one line.
install_command() { # PACKAGE...
    local command="apt-get update && apt-get install --yes --no-install-recommends --no-remove $*"
    if command -v sudo >/dev/null; then
        printf "sudo sh -c '%s'\n" "$command"
    else
        printf "su -c '%s'\n" "$command"
    fi
}

refresh_package_lists() { as_root apt-get update -qq >&2 || say "the package lists could not be refreshed"; }

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install --yes --no-install-recommends --no-remove "$@" >&2
}

# Another Boost is installed and would have to go: unpack the headers under build/ instead.
unpack_boost() { # PACKAGE
    local into=$PWD/build/packages
    mkdir -p "$into"
    say "unpacking $1 into build/packages: another Boost is installed"
    (cd "$into" && apt-get download "$1" >&2 && dpkg-deb -x "$1"_*.deb .)
}

use_unpacked_boost() {
    if [ -d build/packages/usr ]; then
        export CMAKE_PREFIX_PATH=$PWD/build/packages/usr
    fi
}
use_unpacked_boost

# Installs what is missing of the packages given; exits 3 with their list if it may not or cannot.
require_packages() {
    local missing=() package boost
    command -v dpkg-query >/dev/null || {
        say "not a Debian system: relying on what is installed ($*, Boost 1.81 or newer)"
        return
    }
    for package in "$@"; do is_installed "$package" || missing+=("$package"); done
    boost=$(boost_package)
    if ! is_installed "$boost" && [ ! -d build/packages/usr ]; then
        missing+=("$boost")
    fi
    if [ ${#missing[@]} -gt 0 ]; then
        may_install || die 3 "packages are missing, and only root may install them. Paste this, then try again:
$(install_command "${missing[@]}")"
        say "installing: ${missing[*]}"
        refresh_package_lists
        # Asked again: before the first update the lists may have been empty.
        [ "${missing[-1]}" = "$boost" ] && boost=$(boost_package) && missing[-1]=$boost
        if ! apt_install "${missing[@]}"; then
            local others=()
            for package in "${missing[@]}"; do [ "$package" = "$boost" ] || others+=("$package"); done
            { [ ${#others[@]} = 0 ] || apt_install "${others[@]}"; } && unpack_boost "$boost" ||
                die 3 "these packages could not be installed: ${missing[*]}"
        fi
    fi
    use_unpacked_boost
}

# ---- building -----------------------------------------------------------------------------------

build() { # PRESET [TARGET...]
    local preset=$1
    shift
    mkdir -p build
    cmake --preset "$preset" >"build/configure-$preset.log" 2>&1 || {
        cat "build/configure-$preset.log" >&2
        die 1 "preset $preset could not be configured"
    }
    cmake --build --preset "$preset" ${1:+--target "$@"} >&2
}

# ---- PyTorch ------------------------------------------------------------------------------------

# The peer first, then the second row. Each has its exact version in tests/interop/requirements-VERSION.txt.
torch_versions=(2.15 2.13)
torch_version=${DDPRUN_TORCH_VERSION:-${torch_versions[0]}}
torch_version=${torch_version%.0} # 2.15.0 is 2.15

has_torch() { # PYTHON VERSION...
    local python=$1 found version
    shift
    found=$("$python" -c 'import torch; print(torch.__version__.split("+")[0])' 2>/dev/null) || return 1
    for version in "$@"; do [[ "$found." == "$version."* ]] && return; done
    return 1
}

# Installs it, for the CPU, into build/torch-VERSION unless it is there.
install_torch() { # VERSION
    local place=build/torch-$1 list=tests/interop/requirements-$1 exact
    local python=$place/bin/python
    exact=$(sed -n 's/^torch==//p' "$list.txt")
    ! has_torch "$python" "$exact" || return 0
    say "installing PyTorch $exact into $place"
    rm -rf "$place"
    local pip=("$python" -m pip install --quiet)
    # The CPU build where the registry has it. Any other is linked with CUDA's libraries: those alone come
    # along, or, where they do not make a PyTorch, everything that it asks for.
    if python3 -m venv "$place" >&2 && {
        "${pip[@]}" "torch==$exact+cpu" numpy tqdm >/dev/null 2>&1 ||
            { [ -f "$list-linked.txt" ] && "${pip[@]}" --no-deps -r "$list.txt" -r "$list-linked.txt" >&2 &&
                has_torch "$python" "$exact"; } ||
            "${pip[@]}" -r "$list.txt" >&2
    } && has_torch "$python" "$exact"; then return 0; fi
    rm -rf "$place" # Half of it may have filled the disk.
    return 1
}

# Exports DDPRUN_TORCH_PYTHON, a Python that has PyTorch: VERSION exactly if it is given; else the one that
# is exported already if its version is known here, or the usual one, or the second row where that cannot
# be had. 1 if there is none.
provide_torch() { # [VERSION]
    local version wanted=("$torch_version" "${torch_versions[-1]}")
    [[ " ${torch_versions[*]} " == *" $torch_version "* ]] ||
        die 2 "DDPRUN_TORCH_VERSION=$DDPRUN_TORCH_VERSION: accepted are ${torch_versions[*]}"
    if [ $# -gt 0 ]; then
        wanted=("$1")
    elif [ -n "${DDPRUN_TORCH_PYTHON:-}" ]; then
        ! has_torch "$DDPRUN_TORCH_PYTHON" "${torch_versions[@]}" || return 0
        say "DDPRUN_TORCH_PYTHON=$DDPRUN_TORCH_PYTHON has no PyTorch ${torch_versions[*]}: another is used"
    fi
    unset DDPRUN_TORCH_PYTHON
    for version in "${wanted[@]}"; do
        if install_torch "$version"; then
            [ "$version" = "${wanted[0]}" ] || say "PyTorch ${wanted[0]} cannot be had: $version takes its place"
            export DDPRUN_TORCH_PYTHON=$PWD/build/torch-$version/bin/python
            return 0
        fi
    done
    return 1
}

# ---- frameworks on PyTorch ----------------------------------------------------------------------------

# Exports DDPRUN_FRAMEWORKS_PYTHON: an environment that has what these files list, and the PyTorch of
# DDPRUN_TORCH_PYTHON, which must be exported. Made under build/ unless it is there.
provide_frameworks() { # REQUIREMENTS...
    local place=build/frameworks file wanted made
    wanted=$(cat "$@" && printf '%s\n' "$DDPRUN_TORCH_PYTHON")
    made=$(cat "$place/made-of" 2>/dev/null || true)
    if [ "$made" != "$wanted" ]; then
        say "installing ${*##*/} of ${1%/*} into $place"
        rm -rf "$place"
        "$DDPRUN_TORCH_PYTHON" -m venv "$place" >&2 || return 1
        "$DDPRUN_TORCH_PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
            >"$("$place/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
        for file in "$@"; do
            # The setup of DeepSpeed imports torch, and would compile its extensions.
            DS_BUILD_OPS=0 "$place/bin/python" -m pip install --quiet --no-deps --no-build-isolation -r "$file" >&2 ||
                return 1
        done
        printf '%s\n' "$wanted" >"$place/made-of"
    fi
    export DDPRUN_FRAMEWORKS_PYTHON=$PWD/$place/bin/python
}
