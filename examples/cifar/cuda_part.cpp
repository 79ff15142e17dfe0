// SPDX-License-Identifier: Apache-2.0
#include "cuda_part.hpp"

#include "gpu/libraries.hpp"

namespace cifar {
namespace {

constexpr const char* file = "libcifar_cuda.so";

gpu::Wanted cudnn() {
    return {
        "cuDNN",
        CIFAR_CUDNN,
        "DDPRUN_CUDNN",
        {"nvidia/cudnn/lib"},
        {CIFAR_CUDA_DEPS},
        "scripts/cuda_deps.sh brings it and what it opens, or pip install nvidia-cudnn-cu13"};
}

}  // namespace

MakeGpuNetwork open_cuda_part() {
    gpu::require_part(
        file,
        "this build has no CUDA part, since there was no nvcc or no cuDNN; get them "
        "(scripts/cuda_deps.sh cudnn) and build it again");
    gpu::open_driver();
    gpu::open_for_all(cudnn());
    return reinterpret_cast<MakeGpuNetwork>(gpu::open_part(file, make_gpu_network_name));
}

}  // namespace cifar
