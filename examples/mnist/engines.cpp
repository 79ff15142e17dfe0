// SPDX-License-Identifier: Apache-2.0
#include "engines.hpp"

#include "cpu_engine.hpp"
#include "gpu/libraries.hpp"

namespace mnist {
namespace {

constexpr const char* cuda_part = "libmnist_cuda.so";

gpu::Wanted cublaslt() {
    return {
        "cuBLASLt",
        MNIST_CUBLASLT,
        "DDPRUN_CUBLASLT",
        {"nvidia/cu13/lib", "nvidia/cublas/lib"},
        {MNIST_CUDA_DEPS},
        "scripts/cuda_deps.sh cublas brings it, or pip install nvidia-cublas"};
}

MakeCudaEngine* open_cuda() {
    gpu::require_part(
        cuda_part,
        "this build has no CUDA part, since there was no nvcc or no cuBLASLt; get them "
        "(scripts/cuda_deps.sh cublas) and build it again");
    gpu::open_driver();
    gpu::open_for_all(cublaslt());
    return reinterpret_cast<MakeCudaEngine*>(gpu::open_part(cuda_part, "mnist_make_cuda_engine"));
}

}  // namespace

MakeEngine open_device(Device device) {
    if (device == Device::cpu)
        return [](const auto&... arguments) { return std::make_unique<CpuEngine>(arguments...); };
    return [make = open_cuda()](const auto&... arguments) {
        return std::unique_ptr<Engine>(make(arguments...));
    };
}

}  // namespace mnist
