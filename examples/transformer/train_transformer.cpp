// SPDX-License-Identifier: Apache-2.0
// A character-level transformer, trained data-parallel, that survives the loss of any rank:
//   ddprun --standalone --nproc-per-node=2 --max-restarts=3 train_transformer --checkpoint-dir saved
#include "ddprun/process_group.hpp"
#include "ddprun/record.hpp"
#include "ddprun/world.hpp"
#include "training.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <stdexcept>
#include <string>

namespace {

constexpr int unusable_input = 2;
constexpr std::size_t completed_characters = 60;

struct CommandLine {
    transformer::Options training;
    std::string text;
    std::size_t made_characters = std::size_t{1} << 17;
    std::string beginning;
};

void add_options(CLI::App& app, CommandLine& line) {
    auto& options = line.training;
    app.add_option("--text", line.text, "a file; without it, sums in words")->check(CLI::ExistingFile);
    app.add_option("--characters", line.made_characters, "length of the text without --text")
        ->check(CLI::Range(1'000, 100'000'000))
        ->capture_default_str();
    app.add_option("--epochs", options.epochs, "how often to go through the text")
        ->check(CLI::Range(0, 1'000'000))
        ->capture_default_str();
    app.add_option("--batch", options.batch, "windows per step, of all ranks together")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    app.add_option("--passes", options.passes, "backward passes of a rank per step (gradients add up)")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    app.add_option("--context", options.shape.context, "characters of a window")
        ->check(CLI::Range(1, 65'536))
        ->capture_default_str();
    app.add_option("--width", options.shape.width, "of the model")
        ->check(CLI::Range(1, 16'384))
        ->capture_default_str();
    app.add_option("--heads", options.shape.heads, "of attention; they divide the width")
        ->check(CLI::Range(1, 1'024))
        ->capture_default_str();
    app.add_option("--layers", options.shape.layers, "of the model")
        ->check(CLI::Range(1, 1'000))
        ->capture_default_str();
    app.add_option("--lr", options.rate, "highest learning rate")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--clip", options.clip, "norm of the gradients at most")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--seed", options.seed, "of weights, order and text")->capture_default_str();
    app.add_option("--checkpoint-dir", options.folder, "save there, and resume from there");
    app.add_option(
           "--checkpoint-every",
           options.save_every,
           "steps between checkpoints, beside the one after each epoch; 0: only those")
        ->check(CLI::Range(0, 1'000'000'000))
        ->capture_default_str();
    app.add_option("--complete", line.beginning, "a beginning that the model goes on from at the end");
}

int train(CommandLine line) {
    auto& options = line.training;
    const transformer::Corpus corpus(
        line.text.empty() ? transformer::sums_in_words(line.made_characters, options.seed)
                          : transformer::text_in(line.text),
        options.shape.context);
    options.shape.vocabulary = corpus.vocabulary();
    auto beginning = line.beginning;
    if (beginning.empty() && line.text.empty()) beginning = "four plus three is ";
    const auto world = ddprun::World::from_environment();
    const auto group = ddprun::ProcessGroup::create(world);
    transformer::Training training(options, world, group, corpus);
    if (!training.run()) return 0;
    if (world.rank == 0 && !beginning.empty())
        std::printf("completed: %s\n", training.completed(beginning, completed_characters).c_str());
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    // Line-buffered, so that a killed rank has written its lines.
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
    CLI::App app{"Trains a character-level transformer, data-parallel.", "train_transformer"};
    CommandLine line;
    app.option_defaults()->take_last();
    add_options(app, line);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : unusable_input;
    }
    return ddprun::record([&] { return train(line); });
}
