#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/gpu_pack.sh [BUILD [FOLDER]]: packs what the checks that need a GPU need on a machine that has neither this tree
# nor a compiler nor a network: the programs of BUILD (build/release), without debugging information, and the scripts.
# FOLDER (build/gpu-pack) is then complete: `FOLDER/run [OPTION...]` runs the checks there (tests/gpu/gpu_check.py has the
# options). It holds at most 56 MiB; NVIDIA's libraries, 1.2 GiB, are not in it:
#   libcuda               the machine's driver
#   NCCL, cuBLAS, cuDNN   where the dynamic linker finds them, else in the packages (nvidia-nccl-cu13, nvidia-cublas,
#                         nvidia-cudnn-cu13) of the Python that runs the checks, or of DDPRUN_TORCH_PYTHON: PyTorch brings them;
#                         DDPRUN_NCCL=PATH names an NCCL that is elsewhere
#   libcudart             for the two programs that link it (nvidia-cuda-runtime); without it they are reported as failed
# tests/gpu/try_pack.sh tries it in a root that holds nothing else.
# Exits 1 when the folder would be too large, or a program needs a library that is neither there nor in every Linux.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

most_mib=56 # with this tree, 5 MiB, under 64
build=${1:-build/release}
into=${2:-build/gpu-pack}
[ $# -le 2 ] || die 2 "usage: scripts/gpu_pack.sh [BUILD [FOLDER]]"
programs=(ddprun gpu_worker)
# Not in every build: their checks say so.
optional=(train_mnist make_digits compare_checkpoints libmnist_cuda.so train_cifar make_images libcifar_cuda.so nccl_hello nccl_adopted)

# What an executable file needs that a machine may lack.
needs() { # FILE
    readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -Ev '^(libc|libm|libstdc\+\+|libgcc_s|libdl|libpthread|librt|ld-linux-.*)\.so\.[0-9]+$' || true
}

pack_program() { # NAME
    local needed
    cp "$build/bin/$1" "$into/bin/$1"
    # Not the names of functions: a backtrace shows them.
    strip --strip-debug "$into/bin/$1"
    for needed in $(needs "$into/bin/$1"); do
        case $needed in
            libcudart.so.* | libnccl.so.*) ;; # NVIDIA's, found there
            *) die 1 "$1 needs $needed: build it with the preset release-tests" ;;
        esac
    done
}

for program in "${programs[@]}"; do
    [ -e "$build/bin/$program" ] || die 1 "$build/bin/$program was not built: cmake --workflow --preset release-tests"
done
rm -rf "$into"
mkdir -p "$into/bin" "$into/tests/gpu"
for program in "${programs[@]}"; do pack_program "$program"; done
for program in "${optional[@]}"; do
    if [ -e "$build/bin/$program" ]; then pack_program "$program"; else say "$program was not built: its checks are skipped there"; fi
done
cp tests/gpu/*.py "$into/tests/gpu/"
cat >"$into/run" <<'RUN'
#!/bin/sh
# The checks, with the programs beside this file.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
exec "${PYTHON:-python3}" "$here/tests/gpu/gpu_check.py" "$here" "$@"
RUN
chmod +x "$into/run"
mib=$(($(du -s --apparent-size --block-size=1 "$into" | cut -f1) / (1 << 20) + 1))
[ "$mib" -le $most_mib ] || die 1 "$into holds $mib MiB; $most_mib are the most"
say "$into holds $mib MiB: $into/run"
