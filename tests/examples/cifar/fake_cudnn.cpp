// SPDX-License-Identifier: Apache-2.0
// libcudnn.so.9 of a GPU that is not there: 3 by 3 convolutions in bfloat16, plainly, in the fake
// driver's streams. Of each kind there are two ways, and only the last one can be used.
#include "tests/process/sdk/fake_gpu/stream.hpp"
#include "worker_sdk/include/ddprun/float16.hpp"

#include <cudnn.h>
#include <dlfcn.h>

#include <cstddef>
#include <vector>

struct cudnnContext {
    cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
    int count = 0, channels = 0, side = 0;
};
struct cudnnFilterStruct {
    int outputs = 0, inputs = 0;
};
struct cudnnConvolutionStruct {
    bool is_known = false;
    cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace {

using ddprun::BFloat16;
using Floats = std::vector<float>;

constexpr std::size_t workspace_bytes = 4096;

// The arithmetic of the usable algorithms.
constexpr auto forward_math = CUDNN_TENSOR_OP_MATH;
constexpr auto weight_gradient_math = CUDNN_DEFAULT_MATH;
constexpr auto input_gradient_math = CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;

struct Shape {
    std::size_t count, side, inputs, outputs;

    std::size_t pixels() const { return count * side * side; }
    std::size_t weights() const { return outputs * 9 * inputs; }
};

/// Calls `visit(input pixel, tap, output pixel)`.
template <class Visit>
void each_tap(const Shape& shape, const Visit& visit) {
    const auto side = static_cast<int>(shape.side);
    for (std::size_t n = 0; n < shape.count; ++n)
        for (int row = 0; row < side; ++row)
            for (int column = 0; column < side; ++column)
                for (int tap = 0; tap < 9; ++tap) {
                    const int from_row = row + tap / 3 - 1;
                    const int from_column = column + tap % 3 - 1;
                    if (from_row < 0 || from_row >= side) continue;
                    if (from_column < 0 || from_column >= side) continue;
                    const auto first = n * shape.side * shape.side;
                    visit(
                        first + static_cast<std::size_t>(from_row * side + from_column),
                        static_cast<std::size_t>(tap),
                        first + static_cast<std::size_t>(row * side + column));
                }
}

Floats widened(const void* from, std::size_t count) {
    Floats all;
    all.reserve(count);
    for (std::size_t i = 0; i < count; ++i)
        all.push_back(static_cast<float>(static_cast<const BFloat16*>(from)[i]));
    return all;
}

void narrow(const Floats& from, float beta, void* to) {
    auto* const out = static_cast<BFloat16*>(to);
    for (std::size_t i = 0; i < from.size(); ++i)
        out[i] = BFloat16{from[i] + (beta == 0 ? 0 : beta * static_cast<float>(out[i]))};
}

void forward(const Shape& shape, const void* x, const void* weight, void* y) {
    const auto input = widened(x, shape.pixels() * shape.inputs);
    const auto filter = widened(weight, shape.weights());
    Floats output(shape.pixels() * shape.outputs);
    each_tap(shape, [&](std::size_t from, std::size_t tap, std::size_t to) {
        const float* const pixel = &input[from * shape.inputs];
        for (std::size_t o = 0; o < shape.outputs; ++o) {
            const float* const row = &filter[(o * 9 + tap) * shape.inputs];
            float sum = 0;
            for (std::size_t i = 0; i < shape.inputs; ++i)
                sum += pixel[i] * row[i];
            output[to * shape.outputs + o] += sum;
        }
    });
    narrow(output, 0, y);
}

void input_gradient(const Shape& shape, const void* weight, const void* dy, float beta, void* dx) {
    const auto filter = widened(weight, shape.weights());
    const auto gradient = widened(dy, shape.pixels() * shape.outputs);
    Floats result(shape.pixels() * shape.inputs);
    each_tap(shape, [&](std::size_t from, std::size_t tap, std::size_t to) {
        float* const pixel = &result[from * shape.inputs];
        for (std::size_t o = 0; o < shape.outputs; ++o) {
            const float* const row = &filter[(o * 9 + tap) * shape.inputs];
            const float g = gradient[to * shape.outputs + o];
            for (std::size_t i = 0; i < shape.inputs; ++i)
                pixel[i] += g * row[i];
        }
    });
    narrow(result, beta, dx);
}

void weight_gradient(const Shape& shape, const void* x, const void* dy, void* dw) {
    const auto input = widened(x, shape.pixels() * shape.inputs);
    const auto gradient = widened(dy, shape.pixels() * shape.outputs);
    Floats result(shape.weights());
    each_tap(shape, [&](std::size_t from, std::size_t tap, std::size_t to) {
        const float* const pixel = &input[from * shape.inputs];
        for (std::size_t o = 0; o < shape.outputs; ++o) {
            float* const row = &result[(o * 9 + tap) * shape.inputs];
            const float g = gradient[to * shape.outputs + o];
            for (std::size_t i = 0; i < shape.inputs; ++i)
                row[i] += g * pixel[i];
        }
    });
    narrow(result, 0, dw);
}

template <class Body>
cudnnStatus_t in_stream(cudnnHandle_t handle, const Body& body) {
    static const auto enqueue =
        reinterpret_cast<fake_gpu::Enqueue>(::dlsym(RTLD_DEFAULT, fake_gpu::enqueue_name));
    if (enqueue == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
    const fake_gpu::Work work = [body] {
        return fake_gpu::Task{[body] {
            body();
            return true;
        }};
    };
    return enqueue(handle->stream, &work) == 0 ? CUDNN_STATUS_SUCCESS
                                               : CUDNN_STATUS_EXECUTION_FAILED;
}

bool agree(
    cudnnTensorDescriptor_t x,
    cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t convolution,
    cudnnTensorDescriptor_t y) {
    return convolution->is_known && x->count == y->count && x->side == y->side &&
           x->channels == w->inputs && y->channels == w->outputs;
}

Shape shape_of(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w) {
    return {
        static_cast<std::size_t>(x->count),
        static_cast<std::size_t>(x->side),
        static_cast<std::size_t>(w->inputs),
        static_cast<std::size_t>(w->outputs)};
}

/// The first algorithm is the fastest, but not deterministic. The second one needs more memory than
/// it reports here, and its own arithmetic.
template <class Perf, class Algo>
cudnnStatus_t offer(
    Perf* ways, int room, int* found, Algo unsteady, Algo steady, cudnnMathType_t math) {
    if (room < 2) return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < 2; ++i) {
        ways[i] = {};
        ways[i].status = CUDNN_STATUS_SUCCESS;
    }
    ways[0].algo = unsteady;
    ways[0].determinism = CUDNN_NON_DETERMINISTIC;
    ways[1].algo = steady;
    ways[1].determinism = CUDNN_DETERMINISTIC;
    ways[1].mathType = math;
    *found = 2;
    return CUDNN_STATUS_SUCCESS;
}

bool is_enough(void* workspace, std::size_t bytes) {
    return workspace != nullptr && bytes >= workspace_bytes;
}

float number(const void* scale) {
    return *static_cast<const float*>(scale);
}

template <class Descriptor>
cudnnStatus_t make(Descriptor** descriptor) {
    *descriptor = new Descriptor;
    return CUDNN_STATUS_SUCCESS;
}

template <class Descriptor>
cudnnStatus_t destroy(Descriptor* descriptor) {
    delete descriptor;
    return CUDNN_STATUS_SUCCESS;
}

}  // namespace

const char* cudnnGetErrorString(cudnnStatus_t) {
    return "CUDNN_STATUS_OF_THE_FAKE";
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
    return make(handle);
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    return destroy(handle);
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
    return make(tensor);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
    return destroy(tensor);
}
cudnnStatus_t cudnnSetTensor4dDescriptor(
    cudnnTensorDescriptor_t tensor,
    cudnnTensorFormat_t format,
    cudnnDataType_t type,
    int count,
    int channels,
    int height,
    int width) {
    if (format != CUDNN_TENSOR_NHWC || type != CUDNN_DATA_BFLOAT16 || height != width)
        return CUDNN_STATUS_NOT_SUPPORTED;
    *tensor = {count, channels, height};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
    return make(filter);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
    return destroy(filter);
}
cudnnStatus_t cudnnSetFilter4dDescriptor(
    cudnnFilterDescriptor_t filter,
    cudnnDataType_t type,
    cudnnTensorFormat_t format,
    int outputs,
    int inputs,
    int height,
    int width) {
    if (format != CUDNN_TENSOR_NHWC || type != CUDNN_DATA_BFLOAT16 || height != 3 || width != 3)
        return CUDNN_STATUS_NOT_SUPPORTED;
    *filter = {outputs, inputs};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* convolution) {
    return make(convolution);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
    return destroy(convolution);
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(
    cudnnConvolutionDescriptor_t convolution,
    int pad_height,
    int pad_width,
    int stride_down,
    int stride_right,
    int dilation_height,
    int dilation_width,
    cudnnConvolutionMode_t mode,
    cudnnDataType_t type) {
    for (const int one :
         {pad_height, pad_width, stride_down, stride_right, dilation_height, dilation_width})
        if (one != 1) return CUDNN_STATUS_NOT_SUPPORTED;
    if (mode != CUDNN_CROSS_CORRELATION || type != CUDNN_DATA_FLOAT)
        return CUDNN_STATUS_NOT_SUPPORTED;
    convolution->is_known = true;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(
    cudnnConvolutionDescriptor_t convolution, cudnnMathType_t math) {
    convolution->math = math;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t,
    const cudnnTensorDescriptor_t x,
    const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t y,
    const int room,
    int* found,
    cudnnConvolutionFwdAlgoPerf_t* ways) {
    if (!agree(x, w, convolution, y)) return CUDNN_STATUS_BAD_PARAM;
    return offer(
        ways,
        room,
        found,
        CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
        forward_math);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t,
    const cudnnTensorDescriptor_t x,
    const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnFilterDescriptor_t w,
    const int room,
    int* found,
    cudnnConvolutionBwdFilterAlgoPerf_t* ways) {
    if (!agree(x, w, convolution, dy)) return CUDNN_STATUS_BAD_PARAM;
    return offer(
        ways,
        room,
        found,
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0,
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
        weight_gradient_math);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t,
    const cudnnFilterDescriptor_t w,
    const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t x,
    const int room,
    int* found,
    cudnnConvolutionBwdDataAlgoPerf_t* ways) {
    if (!agree(x, w, convolution, dy)) return CUDNN_STATUS_BAD_PARAM;
    return offer(
        ways,
        room,
        found,
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_0,
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
        input_gradient_math);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t,
    const cudnnTensorDescriptor_t x,
    const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t,
    size_t* bytes) {
    *bytes = workspace_bytes;
    return agree(x, w, convolution, y) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t,
    const cudnnTensorDescriptor_t x,
    const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnFilterDescriptor_t w,
    cudnnConvolutionBwdFilterAlgo_t,
    size_t* bytes) {
    *bytes = workspace_bytes;
    return agree(x, w, convolution, dy) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t,
    const cudnnFilterDescriptor_t w,
    const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t x,
    cudnnConvolutionBwdDataAlgo_t,
    size_t* bytes) {
    *bytes = workspace_bytes;
    return agree(x, w, convolution, dy) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnConvolutionForward(
    cudnnHandle_t handle,
    const void* alpha,
    const cudnnTensorDescriptor_t x_shape,
    const void* x,
    const cudnnFilterDescriptor_t w_shape,
    const void* w,
    const cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionFwdAlgo_t way,
    void* workspace,
    size_t workspace_size,
    const void* beta,
    const cudnnTensorDescriptor_t y_shape,
    void* y) {
    if (!agree(x_shape, w_shape, convolution, y_shape) || number(alpha) != 1 || number(beta) != 0)
        return CUDNN_STATUS_BAD_PARAM;
    if (way != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM ||
        convolution->math != forward_math || !is_enough(workspace, workspace_size))
        return CUDNN_STATUS_NOT_SUPPORTED;
    const auto shape = shape_of(x_shape, w_shape);
    return in_stream(handle, [=] { forward(shape, x, w, y); });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle,
    const void* alpha,
    const cudnnTensorDescriptor_t x_shape,
    const void* x,
    const cudnnTensorDescriptor_t dy_shape,
    const void* dy,
    const cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionBwdFilterAlgo_t way,
    void* workspace,
    size_t workspace_size,
    const void* beta,
    const cudnnFilterDescriptor_t w_shape,
    void* dw) {
    if (!agree(x_shape, w_shape, convolution, dy_shape) || number(alpha) != 1 || number(beta) != 0)
        return CUDNN_STATUS_BAD_PARAM;
    if (way != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 || convolution->math != weight_gradient_math ||
        !is_enough(workspace, workspace_size))
        return CUDNN_STATUS_NOT_SUPPORTED;
    const auto shape = shape_of(x_shape, w_shape);
    return in_stream(handle, [=] { weight_gradient(shape, x, dy, dw); });
}

cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle,
    const void* alpha,
    const cudnnFilterDescriptor_t w_shape,
    const void* w,
    const cudnnTensorDescriptor_t dy_shape,
    const void* dy,
    const cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionBwdDataAlgo_t way,
    void* workspace,
    size_t workspace_size,
    const void* beta,
    const cudnnTensorDescriptor_t x_shape,
    void* dx) {
    if (!agree(x_shape, w_shape, convolution, dy_shape) || number(alpha) != 1)
        return CUDNN_STATUS_BAD_PARAM;
    if (way != CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 || convolution->math != input_gradient_math ||
        !is_enough(workspace, workspace_size))
        return CUDNN_STATUS_NOT_SUPPORTED;
    const auto shape = shape_of(x_shape, w_shape);
    const float kept = number(beta);
    return in_stream(handle, [=] { input_gradient(shape, w, dy, kept, dx); });
}
