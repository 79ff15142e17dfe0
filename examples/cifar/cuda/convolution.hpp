// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "architecture.hpp"
#include "gpu/buffer.hpp"
#include "kernels.hpp"

#include <cudnn.h>

#include <cstddef>
#include <memory>

namespace cifar {

/// Throws gpu::Error with cuDNN's message.
void check(cudnnStatus_t status, const char* doing);

/// A cuDNN handle for one stream. All convolutions share its workspace, since they run one after
/// the other.
class Dnn {
public:
    explicit Dnn(const gpu::Stream& stream);
    Dnn(const Dnn&) = delete;
    Dnn& operator=(const Dnn&) = delete;
    ~Dnn();

    cudnnHandle_t get() const { return handle_; }
    void reserve(std::size_t bytes);
    void* workspace() const { return workspace_.data(); }

private:
    const gpu::Stream& stream_;
    cudnnHandle_t handle_ = nullptr;
    gpu::Buffer<char> workspace_;
};

/// One unit's convolution of a batch of one size, in bfloat16, accumulated in float. Uses the
/// fastest of cuDNN's deterministic algorithms.
class Convolution {
public:
    Convolution(Dnn& dnn, const ConvUnit& unit, std::size_t count);

    void forward(const Eight* x, const Bf16* weight, Eight* y) const;
    void weight_gradient(const Eight* x, const Eight* dy, Bf16* gradient) const;
    /// `adds`: adds to the content of dx.
    void input_gradient(const Bf16* weight, const Eight* dy, bool adds, Eight* dx) const;

private:
    template <class Descriptor, cudnnStatus_t (*destroy)(Descriptor)>
    struct Destroy {
        using pointer = Descriptor;
        void operator()(Descriptor descriptor) const { destroy(descriptor); }
    };
    template <class Descriptor, cudnnStatus_t (*destroy)(Descriptor)>
    using Owned = std::unique_ptr<Descriptor, Destroy<Descriptor, destroy>>;
    using Tensor = Owned<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;

    static Tensor tensor(std::size_t count, std::size_t channels, std::size_t side);
    void choose(bool has_input_gradient);
    /// Algorithms are queried and used with a kind of arithmetic that may differ between them.
    void use(cudnnMathType_t arithmetic) const;

    Dnn& dnn_;
    Tensor input_;
    Tensor output_;
    Owned<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor> filter_;
    Owned<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor> convolution_;
    cudnnConvolutionFwdAlgoPerf_t forward_{};
    cudnnConvolutionBwdFilterAlgoPerf_t weight_gradient_{};
    cudnnConvolutionBwdDataAlgoPerf_t input_gradient_{};
};

}  // namespace cifar
