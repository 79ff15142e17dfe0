// SPDX-License-Identifier: Apache-2.0
// libcublasLt of the simulated GPU: the float products that examples/mnist needs, computed on the
// CPU in the fake driver's streams. Everything else is refused.
#include "tests/process/sdk/fake_gpu/stream.hpp"

#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

struct cublasLtContext {};

namespace {

struct Operation {
    cublasOperation_t first = CUBLAS_OP_N;
    cublasOperation_t second = CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    const float* bias = nullptr;
};

/// Column-major.
struct Layout {
    std::size_t rows = 0;
    std::size_t columns = 0;
    std::size_t stride = 0;
};

struct Matrix {
    const float* data;
    Layout layout;
    bool is_transposed;

    std::size_t rows() const { return is_transposed ? layout.columns : layout.rows; }
    std::size_t columns() const { return is_transposed ? layout.rows : layout.columns; }
    float at(std::size_t row, std::size_t column) const {
        return is_transposed ? data[row * layout.stride + column]
                             : data[column * layout.stride + row];
    }
};

/// The limits for a kernel, also stored in the "algorithm".
struct Preference {
    std::uint64_t workspace_bytes = 0;
    std::uint32_t alignments[4] = {256, 256, 256, 256};

    bool holds(const void* const (&matrices)[4], const void* workspace, std::size_t bytes) const {
        for (std::size_t i = 0; i < 4; ++i)
            if (reinterpret_cast<std::uintptr_t>(matrices[i]) % alignments[i] != 0) return false;
        return workspace != nullptr && bytes >= workspace_bytes;
    }
};

/// Kept in the opaque structs of the real header.
template <class T, class Opaque>
T& inside(Opaque* opaque) {
    static_assert(sizeof(T) <= sizeof(Opaque));
    return *reinterpret_cast<T*>(opaque);
}

void multiply(
    const Operation& operation,
    const Matrix& a,
    const Matrix& b,
    float* result,
    std::size_t stride) {
    std::vector<float> column(a.rows());
    for (std::size_t j = 0; j < b.columns(); ++j) {
        std::fill(column.begin(), column.end(), 0.0F);
        for (std::size_t k = 0; k < a.columns(); ++k) {
            const float factor = b.at(k, j);
            for (std::size_t i = 0; i < a.rows(); ++i)
                column[i] += a.at(i, k) * factor;
        }
        if (operation.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS)
            for (std::size_t i = 0; i < a.rows(); ++i)
                column[i] = std::max(0.0F, column[i] + operation.bias[i]);
        std::copy(column.begin(), column.end(), result + j * stride);
    }
}

bool enqueue(CUstream_st* stream, const fake_gpu::Work& work) {
    static const auto enqueue = [] {
        void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        return driver ? reinterpret_cast<fake_gpu::Enqueue>(::dlsym(driver, fake_gpu::enqueue_name))
                      : nullptr;
    }();
    return enqueue != nullptr && enqueue(stream, &work) == 0;
}

template <class T>
cublasStatus_t set(T& to, const void* value, std::size_t size) {
    if (size != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&to, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

const char* cublasLtGetStatusName(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS"
                                           : "CUBLAS_STATUS_INVALID_VALUE";
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "an unsupported value or parameter";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    *handle = new cublasLtContext;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(
    cublasLtMatmulDesc_t* made, cublasComputeType_t compute, cudaDataType_t scale) {
    const bool is_float = compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if (!is_float || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    *made = new cublasLtMatmulDescOpaque_t{};
    inside<Operation>(*made) = {};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
    delete operation;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t made,
    cublasLtMatmulDescAttributes_t attribute,
    const void* value,
    std::size_t size) {
    auto& operation = inside<Operation>(made);
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) return set(operation.first, value, size);
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) return set(operation.second, value, size);
    if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) return set(operation.epilogue, value, size);
    if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER) return set(operation.bias, value, size);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(
    cublasLtMatrixLayout_t* made,
    cudaDataType type,
    std::uint64_t rows,
    std::uint64_t columns,
    std::int64_t stride) {
    if (type != CUDA_R_32F || stride < static_cast<std::int64_t>(rows))
        return CUBLAS_STATUS_INVALID_VALUE;
    *made = new cublasLtMatrixLayoutOpaque_t{};
    inside<Layout>(*made) = {rows, columns, static_cast<std::size_t>(stride)};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
    *made = new cublasLtMatmulPreferenceOpaque_t{};
    inside<Preference>(*made) = {};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    delete preference;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t made,
    cublasLtMatmulPreferenceAttributes_t attribute,
    const void* value,
    std::size_t size) {
    auto& preference = inside<Preference>(made);
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        return set(preference.workspace_bytes, value, size);
    if (attribute == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
        return set(preference.alignments[0], value, size);
    if (attribute == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
        return set(preference.alignments[1], value, size);
    if (attribute == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
        return set(preference.alignments[2], value, size);
    if (attribute == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
        return set(preference.alignments[3], value, size);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t,
    cublasLtMatmulDesc_t,
    cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t,
    cublasLtMatmulPreference_t preference,
    int wanted,
    cublasLtMatmulHeuristicResult_t* results,
    int* found) {
    if (wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
    results[0] = {};
    inside<Preference>(&results[0].algo) = inside<Preference>(preference);
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(
    cublasLtHandle_t,
    cublasLtMatmulDesc_t described,
    const void* alpha,
    const void* first,
    cublasLtMatrixLayout_t first_layout,
    const void* second,
    cublasLtMatrixLayout_t second_layout,
    const void* beta,
    const void* added,
    cublasLtMatrixLayout_t,
    void* result,
    cublasLtMatrixLayout_t result_layout,
    const cublasLtMatmulAlgo_t* algorithm,
    void* workspace,
    std::size_t workspace_bytes,
    cudaStream_t stream) {
    const auto operation = inside<Operation>(described);
    const Matrix a{
        static_cast<const float*>(first),
        inside<Layout>(first_layout),
        operation.first == CUBLAS_OP_T};
    const Matrix b{
        static_cast<const float*>(second),
        inside<Layout>(second_layout),
        operation.second == CUBLAS_OP_T};
    const auto to = inside<Layout>(result_layout);
    if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (a.rows() != to.rows || b.columns() != to.columns || a.columns() != b.rows())
        return CUBLAS_STATUS_INVALID_VALUE;
    auto chosen = *algorithm;
    if (!inside<Preference>(&chosen).holds(
            {first, second, added, result}, workspace, workspace_bytes))
        return CUBLAS_STATUS_INVALID_VALUE;
    const auto work = [=]() -> fake_gpu::Task {
        return [=] {
            multiply(operation, a, b, static_cast<float*>(result), to.stride);
            return true;
        };
    };
    return enqueue(stream, work) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
