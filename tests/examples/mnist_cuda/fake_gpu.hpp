// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>

/// From now on this process and its children see GPUs that are not there, with their libraries.
inline void use_fake_gpu() {
    ::setenv("FAKE_GPU_KERNELS", MNIST_FAKE_KERNELS, 1);
    ::setenv("LD_LIBRARY_PATH", MNIST_FAKE_FOLDER, 1);
    ::setenv("DDPRUN_NCCL", MNIST_FAKE_FOLDER "/libnccl.so.2", 1);
    ::setenv("DDPRUN_CUBLASLT", MNIST_FAKE_FOLDER "/" MNIST_CUBLASLT, 1);
}
