// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

#include <cublasLt.h>

#include <cstddef>
#include <memory>

namespace mnist::cuda {

/// cuBLASLt and its workspace, for one stream.
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

/// result = left * right, of row-major floats; either may be stored transposed.
struct Product {
    /// The sizes of the result, and of the summed dimension.
    std::size_t rows = 0;
    std::size_t columns = 0;
    std::size_t inner = 0;
    bool left_is_transposed = false;
    bool right_is_transposed = false;
    /// Multiply with the first ten bits of each float's fraction, add in whole floats.
    bool is_tf32 = false;
    /// If set: result = max(0, left * right + bias), with one bias for each column.
    const float* relu_bias = nullptr;
};

/// A prepared product: its best kernel is selected once.
class Matmul {
public:
    /// `blas` must outlive it.
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
