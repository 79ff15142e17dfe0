// SPDX-License-Identifier: Apache-2.0
// Trains the classic network on handwritten digits, on as many workers as it is started with:
//   ddprun --standalone --nproc-per-node=4 train_mnist
#include "ddprun/error.hpp"
#include "ddprun/store.hpp"
#include "digit_set.hpp"
#include "engines.hpp"
#include "gpu/unavailable.hpp"
#include "progress.hpp"
#include "training.hpp"

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace {

constexpr int unusable_input = 2;

std::string above_zero(const std::string& text) {
    const double number = std::strtod(text.c_str(), nullptr);
    return number > 0 && number < HUGE_VAL ? "" : "'" + text + "': must be a number above 0";
}

struct Options {
    mnist::TrainingOptions training;
    mnist::Device device = mnist::Device::cpu;
    mnist::Precision precision = mnist::Precision::fp32;
};

void add_device_options(CLI::App& app, Options& options) {
    app.add_option_function<std::string>(
           "--device",
           [&options](const std::string& name) {
               options.device = name == "cuda" ? mnist::Device::cuda : mnist::Device::cpu;
           },
           "what computes: a thread, or this worker's GPU")
        ->check(CLI::IsMember({"cpu", "cuda"}))
        ->default_str("cpu");
    app.add_option_function<std::string>(
           "--precision",
           [&options](const std::string& name) {
               options.precision = name == "tf32" ? mnist::Precision::tf32 : mnist::Precision::fp32;
           },
           "of the GPU's matrix products: tf32 is faster and rounds more")
        ->check(CLI::IsMember({"fp32", "tf32"}))
        ->default_str("fp32");
}

void add_options(CLI::App& app, mnist::TrainingOptions& options) {
    app.add_option(
        "--data", options.data, "folder with MNIST's four files; without it digits are painted");
    app.add_option("--epochs", options.epochs, "how often to go through the training set")
        ->check(CLI::Range(0, 1'000'000))
        ->capture_default_str();
    app.add_option("--batch-size", options.batch_size, "samples per worker and step")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    app.add_option_function<std::string>(
           "--optimizer",
           [&options](const std::string& name) {
               options.optimizer =
                   name == "adam" ? mnist::OptimizerKind::adam : mnist::OptimizerKind::sgd;
           },
           "with momentum, or Adam")
        ->check(CLI::IsMember({"sgd", "adam"}))
        ->default_str("sgd");
    app.add_option("--lr", options.learning_rate, "learning rate")
        ->check(above_zero)
        ->capture_default_str();
    app.add_option("--seed", options.seed, "of weights, order and dropout")->capture_default_str();
    app.add_option("--checkpoint-dir", options.checkpoint_dir, "save there, and resume from there");
    app.add_option(
           "--checkpoint-every",
           options.checkpoint_every,
           "steps between checkpoints, beside the one after each epoch; 0: only those")
        ->check(CLI::Range(0, 1'000'000'000))
        ->capture_default_str();
}

/// The digits that make_digits would write, when no folder is given.
mnist::Dataset dataset_of(const std::string& folder, mnist::Split split, bool shows_progress) {
    if (!folder.empty()) return mnist::read_dataset(folder, split);
    const auto count = mnist::usual_count(split);
    std::optional<mnist::Progress> progress;
    if (shows_progress) progress.emplace("painting digits", count);
    return mnist::paint_digits(count, split, mnist::usual_seed, [&](std::size_t done) {
        if (progress) progress->update(done);
    });
}

int train(const Options& options) {
    const auto world = ddprun::World::from_environment();
    const auto make_engine = mnist::open_device(options.device);
    const bool is_first = world.rank == 0;
    if (is_first && options.training.data.empty())
        mnist::say("no --data: digits are painted, as make_digits does");
    const auto train = dataset_of(options.training.data, mnist::Split::train, is_first);
    const auto test = dataset_of(options.training.data, mnist::Split::test, is_first);
    const auto store = ddprun::Store::connect(world);
    const auto group = ddprun::ProcessGroup::create(world, store);
    auto averaging = group;

    mnist::EngineOptions engine_options;
    engine_options.optimizer = options.training.optimizer;
    engine_options.learning_rate = options.training.learning_rate;
    engine_options.seed = static_cast<std::uint64_t>(options.training.seed);
    engine_options.rank = static_cast<std::uint64_t>(world.rank);
    engine_options.precision = options.precision;
    if (options.device == mnist::Device::cuda) {
        averaging = ddprun::ProcessGroup::create(world, store, {ddprun::Backend::nccl});
        engine_options.device = averaging.device();
    }
    auto engine = make_engine(engine_options, train, test);
    if (engine->stream() != nullptr) averaging.use_stream(engine->stream());
    mnist::Training{
        options.training, world, group, averaging, std::move(engine), {train.size(), test.size()}}
        .run();
    return 0;
}

int fail(int code, const char* what) {
    const char* rank = std::getenv("RANK");
    const auto rank_text = rank == nullptr ? std::string{} : " rank " + std::string{rank} + ":";
    std::fprintf(stderr, "train_mnist:%s %s\n", rank_text.c_str(), what);
    return code;
}

}  // namespace

int main(int argc, char** argv) try {
    CLI::App app{"Trains a network on handwritten digits, data-parallel.", "train_mnist"};
    Options options;
    add_options(app, options.training);
    add_device_options(app, options);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : unusable_input;
    }
    return train(options);
} catch (const mnist::DataError& error) {
    return fail(unusable_input, error.what());
} catch (const gpu::Unavailable& error) {
    return fail(unusable_input, error.what());
} catch (const ddprun::UsageError& error) {
    return fail(unusable_input, error.what());
} catch (const std::exception& error) {
    return fail(1, error.what());
}
