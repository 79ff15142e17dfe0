// SPDX-License-Identifier: Apache-2.0
// Trains a small network on made-up numbers and prints each step's loss of this rank. It uses
// micro-batches (no_sync), a layer that is not always used, and the running averages of a batch
// norm. Seeds and numbers are PyTorch's, so a Python program with DistributedDataParallel gives the
// same.
#include <torch/torch.h>

#include <cstdio>
#include <ddprun/error.hpp>
#include <ddprun/torch/distributed_data_parallel.hpp>
#include <exception>

namespace nn = ::torch::nn;

namespace {

struct NetImpl : nn::Module {
    NetImpl() {
        register_module("first", first);
        register_module("norm", norm);
        register_module("detour", detour);
        register_module("last", last);
    }

    at::Tensor forward(const at::Tensor& input, bool takes_detour) {
        auto hidden = at::relu(norm(first(input)));
        if (takes_detour) hidden = hidden + detour(hidden);
        return last(hidden);
    }

    nn::Linear first{20, 32};
    nn::BatchNorm1d norm{32};
    nn::Linear detour{32, 32};
    nn::Linear last{32, 1};
};
TORCH_MODULE(Net);

void train() {
    constexpr int steps = 30;
    constexpr int batch = 16;
    const auto world = ddprun::World::from_environment();
    const auto group = ddprun::ProcessGroup::create(world);

    ::torch::set_num_threads(1);
    ::torch::manual_seed(world.rank);  // a different seed on each rank: rank 0's values are used
    ddprun::torch::DdpOptions options;
    options.find_unused_parameters = true;
    options.first_bucket_bytes = options.bucket_bytes = 1024;
    ddprun::torch::DistributedDataParallel model(Net(), group, options);
    ::torch::optim::SGD optimizer(
        model->parameters(), ::torch::optim::SGDOptions(0.05).momentum(0.9));

    ::torch::manual_seed(100 + world.rank);
    const auto weights = ::torch::linspace(-1, 1, 20).unsqueeze(1);
    const auto backward = [&](int step) {
        const auto input = ::torch::randn({batch, 20});
        const auto loss = at::mse_loss(model(input, step % 3 != 1), input.matmul(weights));
        loss.backward();
        return loss.item<float>();
    };
    for (int step = 0; step < steps; ++step) {
        optimizer.zero_grad();
        if (step % 5 == 4) {
            const auto guard = model.no_sync();
            backward(step + 1);
        }
        const auto loss = backward(step);
        model.clip_gradients(5);
        optimizer.step();
        std::printf("rank %d step %d loss %.9g\n", world.rank, step, static_cast<double>(loss));
    }
}

}  // namespace

int main() try {
    train();
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "train_toy: %s\n", error.what());
    return 1;
}
