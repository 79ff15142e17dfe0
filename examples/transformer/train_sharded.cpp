// SPDX-License-Identifier: Apache-2.0
// The transformer with its optimizer divided between the ranks (ZeRO-1):
//   ddprun --standalone --nproc-per-node=4 --no-python train_sharded --checkpoint-dir saved
// It resumes from its checkpoint with any number of ranks that divides --batch.
#include "adam_w.hpp"
#include "corpus.hpp"
#include "ddprun/distributed_sampler.hpp"
#include "ddprun/record.hpp"
#include "ddprun/sharded_optimizer.hpp"
#include "model.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace {

using transformer::Corpus;
using transformer::Model;

struct Options {
    transformer::Shape shape;
    std::size_t characters = std::size_t{1} << 17;
    std::uint64_t epochs = 4;
    std::uint64_t batch = 24;
    float rate = 2e-3F;
    float clip = 1.0F;
    std::uint64_t seed = 1;
    std::string folder;
};

ddprun::ShardedOptimizer optimizer_of(const ddprun::ProcessGroup& group, const Options& options) {
    ddprun::ShardedOptimizer::Options sharding;
    sharding.optimizer = transformer::settings;
    sharding.decays = transformer::decays;
    // Small enough that even this model has several buckets.
    sharding.first_bucket_bytes = sharding.bucket_bytes = std::size_t{64} << 10;
    return {group, transformer::parameters_of(options.shape), sharding};
}

/// Uses the optimizer's memory: a forward pass waits for each parameter before its first use.
Model model_of(ddprun::ShardedOptimizer& optimizer, const Options& options) {
    std::vector<float*> parameters, gradients;
    for (std::size_t i = 0; i < optimizer.parameter_count(); ++i) {
        parameters.push_back(optimizer.param(i));
        gradients.push_back(optimizer.grad(i));
    }
    Model model(options.shape, parameters, gradients);
    model.before_use([&](std::size_t parameter) { optimizer.await_parameter(parameter); });
    return model;
}

/// The loss of this rank's windows. Makes no other call on the group: that would wait for the
/// exchange of the parameters, which continues during the next forward pass.
double train_step(
    ddprun::ShardedOptimizer& optimizer,
    Model& model,
    const std::vector<const std::uint8_t*>& windows,
    const Options& options) {
    const auto ranks = static_cast<float>(optimizer.group().size());
    optimizer.zero_gradients();
    const double loss =
        model.train(windows, ranks / static_cast<float>(options.batch), [&](std::size_t parameter) {
            optimizer.mark_ready(parameter);
        });
    optimizer.clip_gradients(options.clip);
    optimizer.step(options.rate);
    return loss;
}

int train(Options options) {
    const auto world = ddprun::World::from_environment();
    const auto ranks = static_cast<std::uint64_t>(world.world_size);
    if (options.batch % ranks != 0)
        throw ddprun::UsageError("--batch must be a multiple of the number of ranks");
    const auto group = ddprun::ProcessGroup::create(world);
    const Corpus corpus(
        transformer::sums_in_words(options.characters, options.seed), options.shape.context);
    options.shape.vocabulary = corpus.vocabulary();
    auto optimizer = optimizer_of(group, options);
    auto model = model_of(optimizer, options);

    std::optional<ddprun::ShardedFolder> folder;
    std::optional<ddprun::Checkpoint> resumed;
    if (!options.folder.empty()) folder.emplace(options.folder);
    if (folder) resumed = optimizer.load_newest(*folder);
    const ddprun::CheckpointRound round(world, resumed ? &*resumed : nullptr);
    if (!resumed) {
        model.initialise(options.seed);
        optimizer.broadcast_parameters();
    } else if (world.rank == 0) {
        std::printf("resumed at epoch %lld\n", static_cast<long long>(resumed->integer("epoch")));
    }

    ddprun::DistributedSampler sampler(
        corpus.window_count(), world.world_size, world.rank, {true, options.seed, true, {}});
    const auto steps = corpus.window_count() / options.batch;
    const auto own = options.batch / ranks;
    auto epoch = resumed ? static_cast<std::uint64_t>(resumed->integer("epoch")) : 0;
    for (; epoch < options.epochs; ++epoch) {
        sampler.set_epoch(epoch);
        const auto indices = sampler.indices();
        double loss = 0;
        for (std::uint64_t step = 0; step < steps; ++step) {
            std::vector<const std::uint8_t*> windows;
            for (auto i = step * own; i < (step + 1) * own; ++i)
                windows.push_back(corpus.window(indices[i]));
            loss += train_step(optimizer, model, windows, options);
        }
        group.all_reduce(&loss, 1).wait();
        if (world.rank == 0)
            std::printf(
                "epoch %llu loss %.4f, %zu bytes of state on this rank\n",
                static_cast<unsigned long long>(epoch),
                loss / static_cast<double>(steps * options.batch),
                optimizer.state_bytes());
        if (!folder) continue;
        ddprun::Checkpoint checkpoint;
        checkpoint.step = optimizer.committed_steps();
        checkpoint.add("epoch", static_cast<std::int64_t>(epoch + 1));
        round.write_to(checkpoint);
        optimizer.save(*folder, std::move(checkpoint));
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"Trains a transformer with a sharded optimizer.", "train_sharded"};
    Options options;
    app.option_defaults()->take_last();
    app.add_option("--characters", options.characters, "length of the text")
        ->check(CLI::Range(1'000, 100'000'000));
    app.add_option("--context", options.shape.context, "characters of a window");
    app.add_option("--width", options.shape.width, "of the model");
    app.add_option("--layers", options.shape.layers, "of the model");
    app.add_option("--batch", options.batch, "windows per step, of all ranks together")
        ->check(CLI::Range(1, 1'000'000));
    app.add_option("--epochs", options.epochs, "how often to go through the text");
    app.add_option("--checkpoint-dir", options.folder, "save there, and resume from there");
    CLI11_PARSE(app, argc, argv);
    return ddprun::record([&] { return train(options); });
}
