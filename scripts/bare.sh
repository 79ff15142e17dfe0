#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# README's two commands on a machine that has nothing: makes a minimal Debian in memory (it takes 6 GiB),
# clones the last commit into it, and there, as a newcomer would, runs scripts/demo.sh and builds the tests
# with scripts/test.sh. Needs root; installs debootstrap and git where they are missing. Nothing else is
# left: the minimal Debian is mounted in a namespace that ends with this script, however it ends.
#   --suite NAME  bookworm (Debian 12, the default) or trixie (13); with --packages also bullseye (11)
#   --demo        stop after the demo
#   --tests       run the tests too: before a release
#   --packages    instead of all that, install and try each package of build/package (scripts/package.sh)
# Where CMAKE_CXX_COMPILER_LAUNCHER=ccache and CCACHE_DIR are set, everything is built with that cache. In the
# minimal Debian no ccache is installed: it gets a copy of this machine's that no PATH finds.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

usage() { die 2 "usage: scripts/bare.sh [--suite bullseye|bookworm|trixie] [--demo | --tests | --packages]"; }

suite=bookworm
extent=build # demo, build, tests or packages
while [ $# -gt 0 ]; do
    case $1 in
        --suite) [ $# -ge 2 ] || usage; suite=$2; shift ;;
        --demo) extent=demo ;;
        --tests) extent=tests ;;
        --packages) extent=packages ;;
        *) usage ;;
    esac
    shift
done
case $suite in
    11 | bullseye) suite=bullseye; [ "$extent" = packages ] || usage ;;
    12 | bookworm) suite=bookworm ;;
    13 | trixie) suite=trixie ;;
    *) usage ;;
esac

mirror=${DDPRUN_DEBIAN_MIRROR:-http://deb.debian.org/debian}
place=$PWD/build/bare # empty but in this script's mount namespace
root=$place/root
# A path with a space in it, as some users have.
checkout="/home/new user/ddprun"

# ---- inside namespaces of mounts and processes, which end with this script ------------------------

# A minimal Debian: no compiler, no Python, no git, no sudo; sh is dash.
make_root() {
    mount -t tmpfs -o mode=755,size=16g tmpfs "$place"
    mkdir "$root"
    debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$place/log" 2>&1 ||
        { tail -n 40 "$root/debootstrap/debootstrap.log" "$place/log" >&2; die 1 "debootstrap could not make a root of $suite from $mirror"; }
    # What every installer and container engine writes.
    printf '127.0.0.1 localhost\n::1 localhost\n127.0.1.1 %s\n' "$(uname -n)" >"$root/etc/hosts"
    mount --bind "$root" "$root" # pivot_root takes mount points only
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    # A $HOME that cannot be written to, even by root.
    mount --bind "$root/root" "$root/root"
    mount -o remount,bind,ro "$root/root"
    local program
    for program in c++ cmake git python3 sudo; do
        ! in_root "command -v $program" >/dev/null || die 1 "the minimal root has $program: it shows nothing"
    done
    git clone --quiet --no-local . "$root$checkout"
}

# Runs a shell command in the root, with nothing of this environment but the way to a proxy. The root
# becomes that of a mount namespace, as a machine's or a container's is: a chroot would end at nsenter.
enter() { # USER COMMAND
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
        ${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
        unshare --mount --propagation private sh -c \
        'cd "$0" && pivot_root . mnt && umount --lazy mnt && exec chroot --userspec="$1" / sh -c "$2"' "$root" "$1" "$2"
}

in_root() { enter root:root "$1"; }
in_checkout() { in_root "cd '$checkout' && $1"; }

cache=env # what stands in front of a command that builds

# Gives the root a compiler cache without installing anything there.
share_compiler_cache() {
    [ "${CMAKE_CXX_COMPILER_LAUNCHER:-}" = ccache ] && [ -n "${CCACHE_DIR:-}" ] || return 0
    local own=/var/lib/ccache library
    mkdir -p "$root$own/cache"
    mount --bind "$CCACHE_DIR" "$root$own/cache"
    # With its own loader and libraries, which may be newer than the root's.
    cp "$(command -v ccache)" "$root$own/ccache.program"
    while read -r library; do
        cp -L "$library" "$root$own/"
    done < <(ldd "$(command -v ccache)" | grep -o '/[^ ]*')
    printf '#!/bin/sh\nexec %s/ld-linux*.so.* --library-path %s %s/ccache.program "$@"\n' "$own" "$own" "$own" \
        >"$root$own/ccache"
    chmod 755 "$root$own/ccache"
    cache+=" CCACHE_DIR=$own/cache CCACHE_BASEDIR='$checkout' CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-}"
    cache+=" CMAKE_C_COMPILER_LAUNCHER=$own/ccache CMAKE_CXX_COMPILER_LAUNCHER=$own/ccache"
}

# A user without the right to install packages gets exit code 3 and one line to paste.
refuses_without_rights() {
    local status=0 said
    said=$(enter nobody:nogroup "cd '$checkout' && scripts/demo.sh" 2>&1) || status=$?
    [ "$status" = 3 ] || die 1 "without the right to install, the demo exits with $status, not 3: $said"
    [ "$(grep -c "^su -c 'apt-get update && apt-get install .*'\$" <<<"$said")" = 1 ] ||
        die 1 "without the right to install, there is no line to paste: $said"
}

runs_demo() {
    local out=$place/demo
    in_checkout "$cache scripts/demo.sh" 2>&1 | tee "$out"
    grep -q '^parameters identical to the undisturbed run$' "$out" || die 1 "the demo did not say how it ended"
}

# Nothing is installed or built the second time.
changes_nothing_again() {
    local out=$place/demo
    in_checkout "$cache DDPRUN_DEMO_EPOCHS=4 scripts/demo.sh" >"$out" 2>&1 || { cat "$out" >&2; die 1 "the second demo fails"; }
    ! grep -E '^installing|^\[[0-9]+/[0-9]+\] (Building|Linking)' "$out" || die 1 "the second demo installs or builds again"
}

# After the demo, without another build.
installs() {
    in_checkout "cmake --install build/release --strip --prefix /opt/ddprun >/dev/null && /opt/ddprun/bin/ddprun --version" ||
        die 1 "what the demo has built cannot be installed"
}

builds_tests() {
    in_checkout "$cache scripts/test.sh --build"
}

# The SDK's package is for the distribution that it was made on.
tries_packages() {
    local without_sdk=--without-sdk
    grep -qs "^VERSION_CODENAME=$suite\$" /etc/os-release && without_sdk=
    mkdir "$root/srv/packages"
    mount --bind build/package "$root/srv/packages"
    in_checkout "tests/package/packages_test.sh /srv/packages . $without_sdk"
}

inside() {
    timed "debootstrap $suite" make_root
    if [ "$extent" = packages ]; then
        timed "packages" tries_packages
        return
    fi
    share_compiler_cache
    timed "refused without the right to install" refuses_without_rights
    timed "scripts/demo.sh" runs_demo
    timed "scripts/demo.sh again" changes_nothing_again
    timed "cmake --install" installs
    if [ "$extent" != demo ]; then timed "scripts/test.sh --build" builds_tests; fi
    if [ "$extent" = tests ]; then timed "scripts/test.sh" in_checkout "$cache scripts/test.sh"; fi
    say "== $suite, $(nproc) processors"
    print_times
}

if [ "${DDPRUN_BARE_INSIDE:-}" = 1 ]; then
    inside
    exit
fi

# ---- outside --------------------------------------------------------------------------------------

[ "$(id -u)" = 0 ] || die 3 "scripts/bare.sh makes a root file system and needs root: sudo scripts/bare.sh"
missing=()
for program in debootstrap git; do command -v "$program" >/dev/null || missing+=("$program"); done
if [ ${#missing[@]} -gt 0 ]; then
    refresh_package_lists
    apt_install "${missing[@]}" || die 3 "these packages could not be installed: ${missing[*]}"
fi
[ -z "$(git status --porcelain)" ] || say "what is not committed is left out"
mkdir -p "$place"
arguments=(--suite "$suite")
[ "$extent" = build ] || arguments+=("--$extent")

# When this script ends, even by SIGKILL, the kernel ends every process of the namespace and unmounts what
# was mounted there. In a process group of its own, so that nothing in there inherits ignored signals.
child=
trap '[ -z "$child" ] || kill -KILL "$child" 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
set -m
DDPRUN_BARE_INSIDE=1 setpriv --pdeathsig KILL \
    unshare --mount --propagation private --pid --fork --kill-child --mount-proc \
    "$BASH" scripts/bare.sh "${arguments[@]}" </dev/null &
child=$!
set +m
wait "$child"
