// SPDX-License-Identifier: Apache-2.0
#include "convolution.hpp"

#include <string>

namespace cifar {
namespace {

constexpr float one = 1;
constexpr float nothing = 0;
constexpr int max_ways = 16;

int as_int(std::size_t size) {
    return static_cast<int>(size);
}

/// cuDNN returns algorithms fastest first, each with its kind of arithmetic; `workspace` returns
/// the memory that an algorithm needs.
template <class Way, class Workspace>
Way first_reproducible(
    const Way (&ways)[max_ways], int count, const std::string& what, const Workspace& workspace) {
    for (int i = 0; i < count; ++i) {
        auto way = ways[i];
        if (way.status != CUDNN_STATUS_SUCCESS || way.determinism != CUDNN_DETERMINISTIC) continue;
        if (workspace(way, &way.memory) == CUDNN_STATUS_SUCCESS) return way;
    }
    std::string offered;
    for (int i = 0; i < count; ++i)
        offered += std::string{i > 0 ? ", " : "; it offers "} +
                   std::to_string(static_cast<int>(ways[i].algo)) +
                   (ways[i].status != CUDNN_STATUS_SUCCESS
                        ? " (status " + std::to_string(static_cast<int>(ways[i].status)) + ")"
                        : " (not deterministic)");
    throw gpu::Error(
        what +
        ": cuDNN has no way to do this in bfloat16 on this GPU that gives the same bits "
        "each time (compute capability 8.0 or newer is needed)" +
        offered);
}

}  // namespace

void check(cudnnStatus_t status, const char* doing) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    throw gpu::Error(
        std::string{doing} + ": " + cudnnGetErrorString(status) + " (cuDNN " +
        std::to_string(static_cast<int>(status)) + ")");
}

Dnn::Dnn(const gpu::Stream& stream) : stream_(stream) {
    check(cudnnCreate(&handle_), "starting cuDNN");
    check(cudnnSetStream(handle_, stream.get()), "giving cuDNN its stream");
}

Dnn::~Dnn() {
    if (handle_ != nullptr) cudnnDestroy(handle_);
}

void Dnn::reserve(std::size_t bytes) {
    if (bytes <= workspace_.count()) return;
    stream_.wait();
    workspace_ = gpu::Buffer<char>{};
    workspace_ = gpu::Buffer<char>{bytes};
}

Convolution::Tensor Convolution::tensor(std::size_t count, std::size_t channels, std::size_t side) {
    cudnnTensorDescriptor_t made = nullptr;
    check(cudnnCreateTensorDescriptor(&made), "describing a tensor");
    Tensor owned{made};
    check(
        cudnnSetTensor4dDescriptor(
            made,
            CUDNN_TENSOR_NHWC,
            CUDNN_DATA_BFLOAT16,
            as_int(count),
            as_int(channels),
            as_int(side),
            as_int(side)),
        "describing a tensor");
    return owned;
}

Convolution::Convolution(Dnn& dnn, const ConvUnit& unit, std::size_t count)
    : dnn_(dnn),
      input_(tensor(count, unit.inputs, unit.side)),
      output_(tensor(count, unit.outputs, unit.side)) {
    cudnnFilterDescriptor_t filter = nullptr;
    check(cudnnCreateFilterDescriptor(&filter), "describing a filter");
    filter_.reset(filter);
    check(
        cudnnSetFilter4dDescriptor(
            filter,
            CUDNN_DATA_BFLOAT16,
            CUDNN_TENSOR_NHWC,
            as_int(unit.outputs),
            as_int(unit.inputs),
            3,
            3),
        "describing a filter");
    cudnnConvolutionDescriptor_t convolution = nullptr;
    check(cudnnCreateConvolutionDescriptor(&convolution), "describing a convolution");
    convolution_.reset(convolution);
    check(
        cudnnSetConvolution2dDescriptor(
            convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        "describing a convolution");
    choose(unit.name != "prep");
}

/// The first unit's input needs no gradient.
void Convolution::choose(bool has_input_gradient) {
    int found = 0;
    {
        cudnnConvolutionFwdAlgoPerf_t ways[max_ways];
        use(CUDNN_TENSOR_OP_MATH);
        check(
            cudnnGetConvolutionForwardAlgorithm_v7(
                dnn_.get(),
                input_.get(),
                filter_.get(),
                convolution_.get(),
                output_.get(),
                max_ways,
                &found,
                ways),
            "choosing a convolution");
        forward_ =
            first_reproducible(ways, found, "a convolution", [this](const auto& way, auto* bytes) {
                use(way.mathType);
                return cudnnGetConvolutionForwardWorkspaceSize(
                    dnn_.get(),
                    input_.get(),
                    filter_.get(),
                    convolution_.get(),
                    output_.get(),
                    way.algo,
                    bytes);
            });
    }
    {
        cudnnConvolutionBwdFilterAlgoPerf_t ways[max_ways];
        use(CUDNN_TENSOR_OP_MATH);
        check(
            cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                dnn_.get(),
                input_.get(),
                output_.get(),
                convolution_.get(),
                filter_.get(),
                max_ways,
                &found,
                ways),
            "choosing a convolution's gradient");
        weight_gradient_ = first_reproducible(
            ways, found, "a convolution's weight gradient", [this](const auto& way, auto* bytes) {
                use(way.mathType);
                return cudnnGetConvolutionBackwardFilterWorkspaceSize(
                    dnn_.get(),
                    input_.get(),
                    output_.get(),
                    convolution_.get(),
                    filter_.get(),
                    way.algo,
                    bytes);
            });
    }
    if (has_input_gradient) {
        cudnnConvolutionBwdDataAlgoPerf_t ways[max_ways];
        use(CUDNN_TENSOR_OP_MATH);
        check(
            cudnnGetConvolutionBackwardDataAlgorithm_v7(
                dnn_.get(),
                filter_.get(),
                output_.get(),
                convolution_.get(),
                input_.get(),
                max_ways,
                &found,
                ways),
            "choosing a convolution's gradient");
        input_gradient_ = first_reproducible(
            ways, found, "a convolution's input gradient", [this](const auto& way, auto* bytes) {
                use(way.mathType);
                return cudnnGetConvolutionBackwardDataWorkspaceSize(
                    dnn_.get(),
                    filter_.get(),
                    output_.get(),
                    convolution_.get(),
                    input_.get(),
                    way.algo,
                    bytes);
            });
    }
    for (const auto bytes : {forward_.memory, weight_gradient_.memory, input_gradient_.memory})
        dnn_.reserve(bytes);
}

void Convolution::use(cudnnMathType_t arithmetic) const {
    check(
        cudnnSetConvolutionMathType(convolution_.get(), arithmetic),
        "choosing a convolution's arithmetic");
}

void Convolution::forward(const Eight* x, const Bf16* weight, Eight* y) const {
    use(forward_.mathType);
    check(
        cudnnConvolutionForward(
            dnn_.get(),
            &one,
            input_.get(),
            x,
            filter_.get(),
            weight,
            convolution_.get(),
            forward_.algo,
            dnn_.workspace(),
            forward_.memory,
            &nothing,
            output_.get(),
            y),
        "convolving");
}

void Convolution::weight_gradient(const Eight* x, const Eight* dy, Bf16* gradient) const {
    use(weight_gradient_.mathType);
    check(
        cudnnConvolutionBackwardFilter(
            dnn_.get(),
            &one,
            input_.get(),
            x,
            output_.get(),
            dy,
            convolution_.get(),
            weight_gradient_.algo,
            dnn_.workspace(),
            weight_gradient_.memory,
            &nothing,
            filter_.get(),
            gradient),
        "a convolution's weight gradient");
}

void Convolution::input_gradient(const Bf16* weight, const Eight* dy, bool adds, Eight* dx) const {
    use(input_gradient_.mathType);
    check(
        cudnnConvolutionBackwardData(
            dnn_.get(),
            &one,
            filter_.get(),
            weight,
            output_.get(),
            dy,
            convolution_.get(),
            input_gradient_.algo,
            dnn_.workspace(),
            input_gradient_.memory,
            adds ? &one : &nothing,
            input_.get(),
            dx),
        "a convolution's input gradient");
}

}  // namespace cifar
