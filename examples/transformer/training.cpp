// SPDX-License-Identifier: Apache-2.0
#include "training.hpp"

#include "ddprun/error.hpp"
#include "ddprun/progress.hpp"
#include "ddprun/shared_checkpoint.hpp"
#include "ddprun/stop.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <utility>

namespace transformer {
namespace {

constexpr std::int64_t steps_between_lines = 20;
/// The share of all steps in which the learning rate grows.
constexpr double warm_up = 0.1;
/// The final share of the learning rate.
constexpr double last_rate = 0.1;

std::vector<float*> views(
    const ddprun::Reducer& reducer, float* (ddprun::Reducer::*view)(std::size_t) const) {
    std::vector<float*> all;
    for (std::size_t i = 0; i < reducer.parameter_count(); ++i)
        all.push_back((reducer.*view)(i));
    return all;
}

/// How many windows of a step each rank gets: as equal as possible.
std::vector<std::uint64_t> shares_of(std::uint64_t batch, int world_size) {
    const auto ranks = static_cast<std::uint64_t>(world_size);
    std::vector<std::uint64_t> shares(ranks, batch / ranks);
    for (std::uint64_t rank = 0; rank < batch % ranks; ++rank)
        ++shares[rank];
    return shares;
}

/// Checks the options before anything is allocated by them.
const Options& checked(const Options& options, const ddprun::World& world, const Corpus& corpus) {
    const auto& shape = options.shape;
    if (shape.heads == 0 || shape.width % shape.heads != 0)
        throw ddprun::UsageError("--heads must divide --width");
    if (options.batch < static_cast<std::uint64_t>(world.world_size))
        throw ddprun::UsageError(
            "--batch is for all ranks together: there are " + std::to_string(world.world_size) +
            " ranks, and --batch is " + std::to_string(options.batch));
    if (corpus.window_count() < options.batch)
        throw ddprun::UsageError(
            "the text has " + std::to_string(corpus.window_count()) + " windows, and a step needs " +
            std::to_string(options.batch) + " (--batch)");
    return options;
}

}  // namespace

Training::Training(
    const Options& options,
    const ddprun::World& world,
    const ddprun::ProcessGroup& group,
    const Corpus& corpus)
    : options_(checked(options, world, corpus)),
      world_(world),
      group_(group),
      corpus_(corpus),
      specs_(parameters_of(options.shape)),
      reducer_(group, specs_),
      model_(
          options.shape,
          views(reducer_, &ddprun::Reducer::param),
          views(reducer_, &ddprun::Reducer::grad)),
      optimizer_(specs_),
      sampler_(
          corpus.window_count(),
          world.world_size,
          world.rank,
          {true, options.seed, true, shares_of(options.batch, world.world_size)}),
      uses_(corpus.window_count()),
      own_uses_(corpus.window_count()) {
    if (options.folder.empty()) return;
    folder_.emplace(options.folder);
    if (world.rank == 0) writer_.emplace(*folder_);
}

bool Training::run() {
    model_.initialise(options_.seed);
    if (folder_) resume();
    reducer_.broadcast_parameters();
    while (state_.epoch < static_cast<std::uint64_t>(options_.epochs))
        if (!train_epoch()) return false;
    if (writer_) writer_->wait();
    return true;
}

std::vector<ddprun::TensorTarget> Training::tensors() {
    std::vector<ddprun::TensorTarget> all{{"uses", uses_.data(), uses_.size()}};
    for (std::size_t i = 0; i < specs_.size(); ++i) {
        const auto& [name, count] = specs_[i];
        all.push_back({name, reducer_.param(i), count});
        all.push_back({"first/" + name, optimizer_.first[i].data(), count});
        all.push_back({"second/" + name, optimizer_.second[i].data(), count});
    }
    return all;
}

void Training::resume() {
    const auto found = ddprun::load_newest(*folder_, group_, tensors());
    round_.emplace(world_, found ? &found->checkpoint : nullptr);
    if (!found) return;
    const auto& checkpoint = found->checkpoint;
    state_.step = static_cast<std::int64_t>(checkpoint.step);
    state_.epoch = static_cast<std::uint64_t>(checkpoint.integer("epoch"));
    state_.windows = static_cast<std::uint64_t>(checkpoint.integer("windows"));
    state_.loss = checkpoint.real("loss");
    if (world_.rank == 0)
        std::printf(
            "resumed at step %lld with %d ranks\n",
            static_cast<long long>(state_.step),
            world_.world_size);
}

bool Training::train_epoch() {
    sampler_.resume({options_.seed, state_.epoch, state_.windows});
    const auto indices = sampler_.indices();
    const auto own = shares_of(options_.batch, world_.world_size)[static_cast<std::size_t>(
        world_.rank)];
    for (std::size_t at = 0; at < indices.size(); at += own) {
        const bool is_stopped = train_step(indices.data() + at, own);
        const bool is_last = at + own >= indices.size();
        const bool is_due = options_.save_every > 0 && state_.step % options_.save_every == 0;
        if (is_stopped || (is_due && !is_last)) save();
        if (is_stopped) {
            if (writer_) writer_->wait();
            return false;
        }
    }
    end_epoch();
    return true;
}

bool Training::train_step(const std::uint64_t* indices, std::size_t count) {
    const auto ranks = static_cast<float>(world_.world_size);
    // With this factor the reducer's mean over the ranks is the mean over the windows of the step.
    const float scale = ranks / static_cast<float>(options_.batch);
    const auto per_pass = (count + options_.passes - 1) / options_.passes;
    double loss = 0;
    reducer_.zero_gradients();
    for (std::size_t at = 0; at < count; at += per_pass) {
        std::vector<const std::uint8_t*> windows;
        for (auto i = at; i < std::min(at + per_pass, count); ++i) {
            windows.push_back(corpus_.window(indices[i]));
            ++own_uses_[indices[i]];
        }
        // Gradients accumulate; those of the last pass are complete while it is still running.
        const bool is_last = at + per_pass >= count;
        loss += model_.train(windows, scale, [&](std::size_t parameter) {
            if (is_last) reducer_.mark_ready(parameter);
        });
    }
    reducer_.step([this] { update(); });

    std::array<double, 2> sums{loss, ddprun::should_stop() ? 1.0 : 0.0};
    group_.all_reduce(sums.data(), sums.size()).wait();
    ++state_.step;
    state_.windows += options_.batch;
    state_.loss += sums[0];
    ddprun::report_progress(static_cast<std::uint64_t>(state_.step));
    if (world_.rank == 0 && state_.step % steps_between_lines == 0)
        std::printf(
            "step %lld loss %.4f\n",
            static_cast<long long>(state_.step),
            sums[0] / static_cast<double>(options_.batch));
    return sums[1] > 0;
}

void Training::update() {
    reducer_.clip_gradients(options_.clip);
    const float now = rate();
    for (std::size_t i = 0; i < specs_.size(); ++i)
        optimizer_.step(i, reducer_.param(i), reducer_.grad(i), now, state_.step + 1);
}

std::int64_t Training::steps_per_epoch() const {
    return static_cast<std::int64_t>(corpus_.window_count() / options_.batch);
}

/// Grows, then falls along a cosine.
float Training::rate() const {
    const auto all = static_cast<double>(options_.epochs * steps_per_epoch());
    const double done = static_cast<double>(state_.step + 1) / all;
    if (done < warm_up) return options_.rate * static_cast<float>(done / warm_up);
    const double fallen = (1 + std::cos(std::numbers::pi * (done - warm_up) / (1 - warm_up))) / 2;
    return options_.rate * static_cast<float>(last_rate + (1 - last_rate) * fallen);
}

/// A collective.
void Training::count_uses() {
    group_.all_reduce(own_uses_.data(), own_uses_.size()).wait();
    for (std::size_t i = 0; i < uses_.size(); ++i)
        uses_[i] += std::exchange(own_uses_[i], 0.0F);
}

void Training::end_epoch() {
    count_uses();
    const auto used = static_cast<std::uint64_t>(
        std::count(uses_.begin(), uses_.end(), 1.0F));
    const auto most = *std::max_element(uses_.begin(), uses_.end());
    if (used != state_.windows || most > 1)
        throw ddprun::Error(
            "epoch " + std::to_string(state_.epoch) + ": of " + std::to_string(state_.windows) +
            " windows " + std::to_string(used) + " were used once, one of them " +
            std::to_string(static_cast<int>(most)) + " times");
    if (world_.rank == 0)
        std::printf(
            "epoch %llu loss %.4f: %llu windows, each once\n",
            static_cast<unsigned long long>(state_.epoch),
            state_.loss / static_cast<double>(state_.windows),
            static_cast<unsigned long long>(state_.windows));
    std::fill(uses_.begin(), uses_.end(), 0.0F);
    state_ = {state_.step, state_.epoch + 1, 0, 0};
    save();
}

/// A collective, except for the write to the disk, which rank 0 does in the background.
void Training::save() {
    if (!folder_) return;
    count_uses();
    if (!writer_) return;
    ddprun::Checkpoint checkpoint;
    checkpoint.step = static_cast<std::uint64_t>(state_.step);
    checkpoint.add("epoch", static_cast<std::int64_t>(state_.epoch));
    checkpoint.add("windows", static_cast<std::int64_t>(state_.windows));
    checkpoint.add("loss", state_.loss);
    for (const auto& [name, values, count, type] : tensors())
        checkpoint.add_view_raw(name, values, count, type);
    round_->write_to(checkpoint);
    writer_->save(std::move(checkpoint));
}

std::string Training::completed(const std::string& beginning, std::size_t characters) const {
    auto tokens = corpus_.tokens_of(beginning);
    for (std::size_t i = 0; i < characters; ++i)
        tokens.push_back(model_.next(tokens));
    return corpus_.text_of(tokens);
}

}  // namespace transformer
