// SPDX-License-Identifier: Apache-2.0
#include "matmul.hpp"

#include <cstdint>
#include <string>

namespace mnist::cuda {
namespace {

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
// The alignment of every matrix: the reducer's parameters and gradients begin at such addresses.
constexpr std::uint32_t alignment_bytes = 64;

void check(cublasStatus_t status, const char* doing) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw gpu::Error(
        std::string{doing} + ": cuBLASLt says " + cublasLtGetStatusName(status) + " (" +
        cublasLtGetStatusString(status) + ")");
}

void destroy(cublasLtMatmulDescOpaque_t* operation) {
    cublasLtMatmulDescDestroy(operation);
}
void destroy(cublasLtMatrixLayoutOpaque_t* layout) {
    cublasLtMatrixLayoutDestroy(layout);
}

template <class Value>
void set(
    cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check(
        cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value),
        "describing a product");
}

cublasLtMatmulDesc_t operation_for(const Product& product) {
    cublasLtMatmulDesc_t operation = nullptr;
    const auto compute = product.is_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check(cublasLtMatmulDescCreate(&operation, compute, CUDA_R_32F), "describing a product");
    return operation;
}

/// cuBLAS is column-major, so it sees these row-major matrices as their transposes.
cublasLtMatrixLayout_t layout_of(std::size_t lines, std::size_t line_length) {
    cublasLtMatrixLayout_t layout = nullptr;
    check(
        cublasLtMatrixLayoutCreate(
            &layout, CUDA_R_32F, line_length, lines, static_cast<std::int64_t>(line_length)),
        "describing a matrix");
    return layout;
}

cublasLtMatrixLayout_t layout_of(std::size_t rows, std::size_t columns, bool is_transposed) {
    return is_transposed ? layout_of(columns, rows) : layout_of(rows, columns);
}

/// The limits for a product's kernel.
class Preference {
public:
    Preference() {
        check(cublasLtMatmulPreferenceCreate(&made_), "choosing a kernel for a product");
        set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
        for (const auto matrix :
             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
            set(matrix, alignment_bytes);
    }
    Preference(const Preference&) = delete;
    Preference& operator=(const Preference&) = delete;
    ~Preference() { cublasLtMatmulPreferenceDestroy(made_); }

    cublasLtMatmulPreference_t get() const { return made_; }

private:
    template <class Value>
    void set(cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
        check(
            cublasLtMatmulPreferenceSetAttribute(made_, attribute, &value, sizeof value),
            "choosing a kernel for a product");
    }

    cublasLtMatmulPreference_t made_ = nullptr;
};

}  // namespace

Blas::Blas() : workspace_(workspace_bytes) {
    check(cublasLtCreate(&handle_), "starting cuBLASLt");
}

Blas::~Blas() {
    cublasLtDestroy(handle_);
}

// The transpose of left * right is right' * left': so right comes first.
Matmul::Matmul(const Blas& blas, const Product& product)
    : blas_(blas),
      operation_(operation_for(product), destroy),
      first_(layout_of(product.inner, product.columns, product.right_is_transposed), destroy),
      second_(layout_of(product.rows, product.inner, product.left_is_transposed), destroy),
      result_(layout_of(product.rows, product.columns, false), destroy) {
    const auto turned = [](bool is_transposed) {
        return is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    };
    set(operation_.get(), CUBLASLT_MATMUL_DESC_TRANSA, turned(product.right_is_transposed));
    set(operation_.get(), CUBLASLT_MATMUL_DESC_TRANSB, turned(product.left_is_transposed));
    if (product.relu_bias != nullptr) {
        set(operation_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU_BIAS);
        set(operation_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.relu_bias);
    }

    const Preference preference;
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    check(
        cublasLtMatmulAlgoGetHeuristic(
            blas.handle(),
            operation_.get(),
            first_.get(),
            second_.get(),
            result_.get(),
            result_.get(),
            preference.get(),
            1,
            &best,
            &found),
        "choosing a kernel for a product");
    if (found == 0) throw gpu::Error("cuBLASLt has no kernel for a product of this size");
    algorithm_ = best.algo;
}

void Matmul::operator()(
    const gpu::Stream& stream, const float* left, const float* right, float* result) const {
    const float one = 1;
    const float zero = 0;
    check(
        cublasLtMatmul(
            blas_.handle(),
            operation_.get(),
            &one,
            right,
            first_.get(),
            left,
            second_.get(),
            &zero,
            result,
            result_.get(),
            result,
            result_.get(),
            &algorithm_,
            blas_.workspace().data(),
            blas_.workspace().bytes(),
            stream.get()),
        "multiplying");
}

}  // namespace mnist::cuda
