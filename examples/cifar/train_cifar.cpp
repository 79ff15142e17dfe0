// SPDX-License-Identifier: Apache-2.0
// Trains a convolutional network on pictures, on as many GPUs as it is started with workers:
//   ddprun --standalone --nproc-per-node=gpu train_cifar --data images
#include "cuda_part.hpp"
#include "ddprun/error.hpp"
#include "ddprun/store.hpp"
#include "gpu/unavailable.hpp"
#include "training.hpp"

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <numeric>
#include <string>

namespace {

constexpr int unusable_input = 2;

std::string above_zero(const std::string& text) {
    const double number = std::strtod(text.c_str(), nullptr);
    return number > 0 && number < HUGE_VAL ? "" : "'" + text + "': must be a number above 0";
}

void add_options(CLI::App& app, cifar::TrainingOptions& options) {
    app.add_option("--data", options.data, "folder with CIFAR-10's six files (binary version)")
        ->required();
    app.add_option("--epochs", options.epochs, "how often to go through the training set")
        ->check(CLI::Range(0, 1'000'000))
        ->capture_default_str();
    app.add_option("--batch-size", options.batch_size, "images per worker and step")
        ->check(CLI::Range(1, 16'384))
        ->capture_default_str();
    app.add_option("--lr", options.learning_rate, "learning rate at the top of the cycle")
        ->check(above_zero)
        ->capture_default_str();
    app.add_option("--seed", options.seed, "of weights, order and variations")
        ->capture_default_str();
    app.add_option("--width", options.width, "channels of the first convolution")
        ->check(CLI::IsMember({8, 16, 32, 64, 128}))
        ->capture_default_str();
    app.add_option("--cutout", options.cutout, "side of the square that is cut out of each image")
        ->check(CLI::Range(0, 32))
        ->capture_default_str();
    app.add_flag("--sync-bn", options.sync_norm, "batch norm over the images of all workers");
    app.add_option("--checkpoint-dir", options.checkpoint_dir, "save there, and resume from there");
    app.add_option(
           "--checkpoint-every",
           options.checkpoint_every,
           "steps between checkpoints, beside the one after each epoch; 0: only those")
        ->check(CLI::Range(0, 1'000'000'000))
        ->capture_default_str();
}

std::vector<int> all_ranks(int count) {
    std::vector<int> ranks(static_cast<std::size_t>(count));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

int train(const cifar::TrainingOptions& options) {
    const auto world = ddprun::World::from_environment();
    const auto make_network = cifar::open_cuda_part();
    const auto train = cifar::read_dataset(options.data, cifar::Split::train);
    const auto test = cifar::read_dataset(options.data, cifar::Split::test);

    const auto store = ddprun::Store::connect(world);
    const auto host = ddprun::ProcessGroup::create(world, store);
    const auto gradients = ddprun::ProcessGroup::create(world, store, {ddprun::Backend::nccl});
    const auto sums = gradients.sub_group(all_ranks(world.world_size));

    cifar::GpuNetwork::Options network_options;
    network_options.device = gradients.device();
    network_options.width = options.width;
    network_options.batch_size = options.batch_size;
    network_options.seed = static_cast<std::uint64_t>(options.seed);
    network_options.cut = options.cutout;
    const std::unique_ptr<cifar::GpuNetwork> network{make_network(network_options)};
    network->load(cifar::Split::train, train);
    network->load(cifar::Split::test, test);
    for (const auto* group : {&gradients, &sums})
        group->use_stream(network->stream());
    cifar::Training{options, world, {host, gradients, sums}, *network, train.size(), test.size()}
        .run();
    return 0;
}

int fail(int code, const char* what) {
    const char* rank = std::getenv("RANK");
    const auto rank_text = rank == nullptr ? std::string{} : " rank " + std::string{rank} + ":";
    std::fprintf(stderr, "train_cifar:%s %s\n", rank_text.c_str(), what);
    return code;
}

}  // namespace

int main(int argc, char** argv) try {
    CLI::App app{"Trains a convolutional network on pictures, data-parallel.", "train_cifar"};
    cifar::TrainingOptions options;
    add_options(app, options);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : unusable_input;
    }
    return train(options);
} catch (const cifar::DataError& error) {
    return fail(unusable_input, error.what());
} catch (const gpu::Unavailable& error) {
    return fail(unusable_input, error.what());
} catch (const ddprun::UsageError& error) {
    return fail(unusable_input, error.what());
} catch (const std::exception& error) {
    return fail(1, error.what());
}
