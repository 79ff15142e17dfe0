// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

#include <cublasLt.h>

#include <cstddef>
#include <memory>

namespace mnist::cuda {

/// cuBLASLt, and the memory that its kernels work in. For one stream.
class Blas {
public:
    Blas();
    Blas(const Blas&) = delete;
    Blas& operator=(const Blas&) = delete;
    ~Blas();

    cublasLtHandle_t handle() const { return handle_; }
    const gpu::Buffer<std::byte>& workspace() const { return workspace_; }

private:
    cublasLtHandle_t handle_ = nullptr;
    gpu::Buffer<std::byte> workspace_;
};

/// result = left * right, of floats kept line by line; either may be kept transposed.
struct Product {
    /// Of the result, and what is summed over.
    std::size_t rows = 0;
    std::size_t columns = 0;
    std::size_t inner = 0;
    bool left_is_transposed = false;
    bool right_is_transposed = false;
    /// Multiply with the first ten bits of each float's fraction, add in whole floats.
    bool is_tf32 = false;
    /// result = max(0, left * right + bias), one number of the bias for each column.
    const float* relu_bias = nullptr;
};

/// One product, made ready: which kernel is the best for it is asked once.
class Matmul {
public:
    /// `blas` outlives it.
    Matmul(const Blas& blas, const Product& product);

    void operator()(
        const gpu::Stream& stream, const float* left, const float* right, float* result) const;

private:
    template <class T>
    using Owned = std::unique_ptr<T, void (*)(T*)>;

    const Blas& blas_;
    Owned<cublasLtMatmulDescOpaque_t> operation_;
    Owned<cublasLtMatrixLayoutOpaque_t> first_, second_, result_;
    cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace mnist::cuda
