#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the packages that install ddprun without a build, into build/package:
#   ddprun-VERSION-linux-PROCESSOR.tar.gz  programs, man page, completions, units, Containerfile; unpack anywhere
#   ddprun_VERSION_ARCH.deb                the same for Debian and Ubuntu
#   ddprun-VERSION-py3-none-*.whl          the programs, for a Python environment
#   libddprun-dev_VERSION_ARCH.deb         the worker SDK
#   ddprun-VERSION-debug-PROCESSOR.tar.gz  the programs' debug symbols
#   SHA256SUMS
# and build/demo.svg, a recording of the demo with these programs, to be compared with docs/demo.svg.
# The programs are static: they run on any Linux, whatever its C library. The SDK's package is for the
# distribution that it was made on.
#   --arch aarch64  cross-compiles the programs (no SDK) and starts them once under qemu
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

usage() { die 2 "usage: scripts/package.sh [--arch x86_64|aarch64]"; }

native=$(uname -m)
processor=$native
while [ $# -gt 0 ]; do
    case $1 in
        --arch) [ $# -ge 2 ] || usage; processor=$2; shift ;;
        *) usage ;;
    esac
    shift
done
case $processor in
    x86_64) arch=amd64 ;;
    aarch64) arch=arm64 ;;
    *) usage ;;
esac
[ "$processor" = "$native" ] || [ "$processor" = aarch64 ] || die 2 "only aarch64 can be cross-compiled, not $processor"

out=$PWD/build/package
stage=$PWD/build/package/stage-$processor
run=() # how a program of that processor is started
strip=strip objcopy=objcopy

# Headers of this distribution's packages, without those of its C library, which are another processor's.
unpack_headers() {
    local into=$PWD/build/cross/packages package part=$PWD/build/cross/unpacking
    [ -d "$into" ] && return
    rm -rf "$part"
    mkdir -p "$part"
    for package in "$(boost_package)" nlohmann-json3-dev libcli11-dev; do
        (cd "$part" && apt-get download -qq "$package" >&2 && dpkg-deb -x "$package"_*.deb .)
    done
    mv "$part" "$into"
}

# OpenSSL's archives for that processor, and the headers that differ from this one's. The system's own
# list of processors stays as it is.
unpack_foreign_openssl() {
    local into=$PWD/build/cross/packages package part=$PWD/build/cross/unpacking lists=$PWD/build/cross/apt
    [ -e "$into/usr/include/openssl/opensslconf.h" ] && return
    rm -rf "$part"
    mkdir -p "$part" "$lists/lists/partial" "$lists/cache/archives/partial"
    foreign_apt() {
        apt-get -qq -o APT::Architecture=$arch -o APT::Architectures=$arch -o Dir::State::Lists="$lists/lists" \
            -o Dir::Cache="$lists/cache" -o APT::Sandbox::User= "$@" >&2
    }
    foreign_apt update
    (cd "$part" && foreign_apt download libssl-dev && dpkg-deb -x libssl-dev_*.deb .)
    cp -r "$part/usr/include/$processor-linux-gnu/openssl/." "$part/usr/include/openssl"
    mkdir -p "$into/usr/include/openssl"
    cp "$part/usr/lib/$processor-linux-gnu/"lib{ssl,crypto}.a "$into"
    cp -r "$part/usr/include/openssl/." "$into/usr/include/openssl"
}

build_natively() {
    require_packages "${build_packages[@]}" python3 dpkg-dev
    local targets=(programs ddprun_worker ddprun_worker_shared)
    # A release build that is there keeps its options.
    if [ -f build/release/build.ninja ]; then cmake --build build/release --target "${targets[@]}" >&2; else build release "${targets[@]}"; fi
    build_dir=build/release
}

build_aarch64() {
    require_packages "${build_packages[@]}" python3 g++-aarch64-linux-gnu qemu-user-static
    unpack_headers
    unpack_foreign_openssl
    build_dir=build/cross/aarch64
    cmake --preset release -B $build_dir -DDDPRUN_EXAMPLES=OFF -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
        -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
        -DCMAKE_FIND_ROOT_PATH="$PWD/build/cross/packages" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER \
        -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
        -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY \
        -DBoost_DIR="$(dirname "$(find "$PWD/build/cross/packages" -name BoostConfig.cmake)")" \
        -DOPENSSL_INCLUDE_DIR="$PWD/build/cross/packages/usr/include" \
        -DOPENSSL_SSL_LIBRARY="$PWD/build/cross/packages/libssl.a" \
        -DOPENSSL_CRYPTO_LIBRARY="$PWD/build/cross/packages/libcrypto.a" \
        -DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64-static -DDDPRUN_NVCC_PROGRAM= >build/configure-aarch64.log 2>&1 || { cat build/configure-aarch64.log >&2; die 1 "aarch64 could not be configured"; }
    cmake --build $build_dir --target programs >&2
    strip=aarch64-linux-gnu-strip objcopy=aarch64-linux-gnu-objcopy
    run=(qemu-aarch64-static)
}

# Everything of the programs' package under $stage/usr, and their symbols beside it.
stage_programs() {
    local program bin=$stage/usr/bin
    # The unit file names the program where it will be.
    DESTDIR=$stage cmake --install "$build_dir" --component programs --prefix /usr >/dev/null
    mkdir -p "$stage/debug"
    for program in ddprun ddprun-rendezvous; do
        $objcopy --only-keep-debug "$bin/$program" "$stage/debug/$program.debug"
        $strip "$bin/$program"
        $objcopy --add-gnu-debuglink="$stage/debug/$program.debug" "$bin/$program"
    done
    "${run[@]}" "$bin/ddprun" --version >&2
    check_licenses "$stage/usr/share/doc/ddprun"
    gzip -9nf "$stage/usr/share/man/man1/ddprun.1" "$stage/usr/share/man/man1/ddprunctl.1"
}

# The programs contain parts of others, so their licences go with them.
check_licenses() { # FOLDER
    local part
    for part in Boost nlohmann-json3-dev libcli11-dev libssl-dev libc6 libstdc++6; do
        grep -q "^== $part\\b" "$1/THIRD-PARTY-LICENSES" || die 1 "$1/THIRD-PARTY-LICENSES lacks the licence of $part: configure again once its package is installed"
    done
}

# The same files give the same bytes.
pack() { # ARCHIVE FOLDER MEMBER...
    local archive=$1 folder=$2
    shift 2
    tar --sort=name --mode=u+rwX,go+rX,go-w --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$folder" -c "$@" | gzip -9n >"$archive"
}

make_deb() { # ROOT PACKAGE DESCRIPTION DEPENDS
    local root=$1 package=$2 description=$3 depends=$4
    mkdir -p "$root/DEBIAN"
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: %s\nSection: science\nPriority: optional\n' "$package" "$version" "$arch"
        printf 'Maintainer: the ddprun developers <ddprun@localhost>\n'
        printf 'Installed-Size: %s\n' "$(du -sk --exclude=DEBIAN "$root" | cut -f1)"
        [ -z "$depends" ] || printf 'Depends: %s\n' "$depends"
        printf 'Description: %s\n' "$description"
    } >"$root/DEBIAN/control"
    chmod -R u+rwX,go+rX,go-w "$root"
    dpkg-deb --root-owner-group -Zxz --build "$root" "$out/${package}_${version}_$arch.deb" >/dev/null
}

package_programs() {
    local name=ddprun-$version-linux-$processor bin=$stage/usr/bin tree
    tree=$stage/tar/$name
    mkdir -p "$tree/lib"
    cp -r "$stage/usr/bin" "$stage/usr/share" "$tree"
    cp -r "$stage/usr/lib/systemd" "$tree/lib"
    pack "$out/$name.tar.gz" "$stage/tar" "$name"
    pack "$out/ddprun-$version-debug-$processor.tar.gz" "$stage/debug" .
    mkdir -p "$stage/deb"
    cp -r "$stage/usr" "$stage/deb"
    cp "$stage/deb/usr/share/doc/ddprun/NOTICE" "$stage/deb/usr/share/doc/ddprun/copyright"
    make_deb "$stage/deb" ddprun "launcher and rendezvous server for distributed training
 torchrun's command line as a native program: starts a training job on one
 or many nodes, supervises it and restarts it." ""
    python3 scripts/packaging/make_wheel.py "$version" "$processor" "$out" "$bin/ddprun" "$bin/ddprun-rendezvous" -- \
        LICENSE scripts/packaging/NOTICE "$stage/usr/share/doc/ddprun/THIRD-PARTY-LICENSES" >/dev/null
}

# What the SDK's shared libraries need, as packages.
library_packages() { # ROOT
    mkdir -p "$stage/shlibs/debian"
    printf 'Source: ddprun\n\nPackage: libddprun-dev\nArchitecture: any\n' >"$stage/shlibs/debian/control"
    (cd "$stage/shlibs" && find "$1" -name '*.so*' -type f -print0 |
        xargs -0 dpkg-shlibdeps -O --ignore-missing-info -l"$1/usr/lib" 2>/dev/null) | sed 's/^shlibs:Depends=//'
}

package_sdk() {
    local root=$stage/sdk depends
    cmake --install "$build_dir" --component sdk --prefix "$root/usr" >/dev/null
    find "$root" -name '*.so*' -type f -exec strip --strip-unneeded {} +
    find "$root" -name '*.a' -exec strip --strip-debug {} +
    cp "$root/usr/share/doc/libddprun-dev/NOTICE" "$root/usr/share/doc/libddprun-dev/copyright"
    depends=$(library_packages "$root") && [ -n "$depends" ] || die 1 "dpkg-shlibdeps does not say what the SDK's libraries need"
    make_deb "$root" libddprun-dev "C++ and C library for workers of ddprun
 Headers, static and shared library: ranks, store, collectives over shared
 memory, TCP and NCCL, a reducer for data-parallel training, checkpoints." "$depends"
}

# docs/demo.svg again, as build/demo.svg: both must show the same things.
record_demo() {
    local status=0
    cmake --build "$build_dir" --target train_mnist make_digits >&2
    python3 scripts/packaging/record_demo.py "$build_dir/bin" build/demo.svg || status=$?
    [ $status != 77 ] || [ "${DDPRUN_REQUIRE_ROOT:-0}" = 1 ] || return 0
    [ $status = 0 ] || die 1 "the demo cannot be recorded as docs/demo.svg has it"
    python3 scripts/packaging/record_demo.py --check docs/demo.svg ||
        die 1 "docs/demo.svg is not what a new recording shows: see build/demo.svg, and copy it there"
}

rm -rf "$stage"
mkdir -p "$out" "$stage"
if [ "$processor" = "$native" ]; then build_natively; else build_aarch64; fi
stage_programs
# Packages of an earlier version would be taken for this one's.
rm -f "$out"/ddprun-*"$processor".tar.gz "$out"/ddprun_*_"$arch".deb "$out"/ddprun-*_"$processor".whl "$out"/libddprun-dev_*_"$arch".deb
version=$("${run[@]}" "$stage/usr/bin/ddprun" --version | awk 'NR == 1 { print $2 }')
package_programs
if [ "$processor" = "$native" ]; then package_sdk; record_demo; fi
rm -rf "$stage"
(cd "$out" && sha256sum -- *.tar.gz *.deb *.whl >SHA256SUMS)
ls -l "$out" >&2
