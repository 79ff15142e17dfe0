#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/gpu/try_pack.sh PACK FAKE_GPU [OPTION...]: runs what scripts/gpu_pack.sh has packed in a root that holds nothing else
# but the C and C++ libraries, a shell and a Python, over the GPU that is not there: the folder FAKE_GPU of a build, and the
# libraries in FAKE_GPU_KERNELS. Needs root; what it makes lives in a mount namespace that ends with it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

[ $# -ge 2 ] || die 2 "usage: tests/gpu/try_pack.sh PACK FAKE_GPU [OPTION...]"
[ "$(id -u)" = 0 ] || die 3 "tests/gpu/try_pack.sh makes a root file system and needs root"
if [ "${DDPRUN_TRY_PACK_INSIDE:-}" != 1 ]; then
    DDPRUN_TRY_PACK_INSIDE=1 exec unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$BASH" "$0" "$@"
fi

pack=$(realpath "$1")
fake=$(realpath "$2")
shift 2
root=$(mktemp -d)
trap 'umount --lazy "$root"; rmdir "$root"' EXIT
mount -t tmpfs -o mode=755 tmpfs "$root"

# With everything that they are linked with.
put() { # FILE...
    local file
    for file in "$@" $(ldd "$@" | sed -nE 's/.*(=> |^\t)(\/[^ ]+).*/\2/p' | sort -u); do
        mkdir -p "$root$(dirname "$file")"
        cp -L "$file" "$root$file"
    done
}

python=$(realpath /usr/bin/python3)
put /bin/sh /usr/bin/env /usr/bin/dirname "$python"
library=$("$python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
mkdir -p "$root$library" "$root/usr/lib/x86_64-linux-gnu" "$root"/{proc,dev/shm,tmp,sys,pack,fake,kernels,folder}
cp -r "$library/." "$root$library"
find "$root$library/lib-dynload" -name '_ctypes*.so' -print0 | while IFS= read -r -d '' file; do put "${file#"$root"}"; done
for name in libstdc++.so.6 libgcc_s.so.1 libm.so.6 libz.so.1; do
    file=$(ldconfig -p | awk -v name="$name" '$1 == name { print $NF; exit }')
    [ -z "$file" ] || put "$file"
done
ln -s "$python" "$root/usr/bin/python3"
mount --bind -o ro "$pack" "$root/pack"
cp -L "$fake"/* "$root/fake/"
kernels=
IFS=: read -ra libraries <<<"${FAKE_GPU_KERNELS:-}"
for file in "${libraries[@]}"; do
    cp -L "$file" "$root/kernels/"
    kernels+=${kernels:+:}/kernels/$(basename "$file")
done
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
for device in null zero urandom; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done

chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/tmp LD_LIBRARY_PATH=/fake \
    FAKE_GPU_FOLDER=/folder FAKE_GPU_COUNT=1 FAKE_GPU_KERNELS="$kernels" FAKE_NCCL_NOTICES_DEATHS=1 FAKE_NCCL_BLOCKING=allowed \
    /pack/run --out=/tmp/out "$@"
