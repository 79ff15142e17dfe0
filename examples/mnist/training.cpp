// SPDX-License-Identifier: Apache-2.0
#include "training.hpp"

#include "ddprun/error.hpp"
#include "ddprun/shared_checkpoint.hpp"
#include "progress.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

namespace mnist {
namespace {

std::vector<ddprun::ParameterSpec> specs() {
    std::vector<ddprun::ParameterSpec> all;
    for (const auto& shape : Mlp::parameters())
        all.push_back({shape.name, shape.count()});
    return all;
}

Numbers views(const ddprun::Reducer& reducer, float* (ddprun::Reducer::*view)(std::size_t) const) {
    Numbers all;
    for (std::size_t i = 0; i < reducer.parameter_count(); ++i)
        all.push_back((reducer.*view)(i));
    return all;
}

/// What is added up over an epoch.
enum Metric : std::size_t { loss, correct, samples, metric_count };

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Training::Training(
    const TrainingOptions& options,
    const ddprun::World& world,
    const ddprun::ProcessGroup& group,
    const Dataset& train,
    const Dataset& test)
    : options_(options),
      world_(world),
      group_(group),
      train_(train),
      test_(test),
      reducer_(group, specs()),
      parameters_(views(reducer_, &ddprun::Reducer::param)),
      gradients_(views(reducer_, &ddprun::Reducer::grad)),
      model_(parameters_, gradients_),
      optimizer_(options.learning_rate),
      sampler_(
          train.size(),
          world.world_size,
          world.rank,
          {true, static_cast<std::uint64_t>(options.seed), false}),
      metrics_(group, metric_count) {
    if (!options.checkpoint_dir.empty()) checkpoints_.emplace(options.checkpoint_dir);
    if (checkpoints_ && is_first()) writer_.emplace(*checkpoints_);
    state_.seed = options.seed;
}

void Training::run() {
    say("rank " + std::to_string(world_.rank) + " of " + std::to_string(world_.world_size) + ": " +
        std::to_string(sampler_.size()) + " samples");
    begin();
    while (state_.epoch < options_.epochs)
        train_epoch();
    if (writer_) writer_->wait();  // the last one counts
    const double accuracy = test_accuracy();
    if (is_first()) say("test accuracy " + with_digits(100 * accuracy, 2) + " %");
}

void Training::begin() {
    model_.initialise(static_cast<std::uint64_t>(options_.seed));
    if (checkpoints_) resume();
    reducer_.broadcast_parameters();
}

/// All ranks take the same checkpoint, so all of them refuse it for the same reason.
void Training::resume() try {
    std::vector<std::string> passed_over;
    const auto found = ddprun::load_newest(*checkpoints_, group_, &passed_over);
    for (const auto& line : passed_over)
        std::fprintf(stderr, "checkpoint passed over: %s\n", line.c_str());
    round_.emplace(world_, found ? &found->checkpoint : nullptr);
    if (!found) return;

    state_ = from_checkpoint(found->checkpoint, parameters_, optimizer_.velocities());
    if (state_.seed != options_.seed)
        throw ddprun::UsageError(
            found->path + " was written with --seed " + std::to_string(state_.seed) +
            ", this run has --seed " + std::to_string(options_.seed) +
            "\ngive the same seed, or another --checkpoint-dir");
    if (is_first())
        say("resumed from step " + std::to_string(state_.step) + " of round " +
            std::to_string(found->checkpoint.round) + ": " + found->path);
} catch (const ddprun::Error& error) {
    if (error.code() != ddprun::ErrorCode::other) throw;
    throw ddprun::UsageError(
        std::string{error.what()} + "\n--checkpoint-dir " + options_.checkpoint_dir +
        " cannot be used: give another one, or remove what is in it");
}

void Training::train_epoch() {
    const auto start = std::chrono::steady_clock::now();
    const double samples_before = state_.samples;
    const auto epoch = static_cast<std::uint64_t>(state_.epoch);
    sampler_.set_epoch(epoch);
    sampler_.resume(
        {static_cast<std::uint64_t>(state_.seed),
         epoch,
         static_cast<std::uint64_t>(state_.consumed)});
    const auto indices = sampler_.indices();

    {
        Progress progress{
            "epoch " + std::to_string(state_.epoch + 1) + "/" + std::to_string(options_.epochs) +
                ": sample",
            indices.size()};
        for (std::size_t next = 0; next < indices.size();) {
            const auto batch_size = std::min(options_.batch_size, indices.size() - next);
            train_step(&indices[next], batch_size);
            next += batch_size;
            if (is_first()) progress.update(next);
            const bool is_due =
                options_.checkpoint_every > 0 && state_.step % options_.checkpoint_every == 0;
            if (is_due && next < indices.size()) save();
        }
    }
    finish_epoch(seconds_since(start), samples_before);
}

void Training::train_step(const std::uint64_t* batch, std::size_t batch_size) {
    const DropoutKey key{
        static_cast<std::uint64_t>(state_.seed),
        static_cast<std::uint64_t>(state_.step),
        static_cast<std::uint64_t>(world_.rank)};
    const auto result = model_.train(
        train_, batch, batch_size, key, [this](std::size_t i) { reducer_.mark_ready(i); });
    reducer_.step([this] { optimizer_.step(parameters_, gradients_); });

    metrics_.add(loss, result.loss);
    metrics_.add(correct, static_cast<double>(result.correct));
    metrics_.add(samples, static_cast<double>(batch_size));
    ++state_.step;
    state_.consumed += static_cast<std::int64_t>(batch_size) * world_.world_size;
}

void Training::finish_epoch(double seconds, double samples_before) {
    reduce_totals();
    if (is_first())
        say("epoch " + std::to_string(state_.epoch + 1) + "/" + std::to_string(options_.epochs) +
            " loss " + with_digits(state_.loss / state_.samples, 4) + " accuracy " +
            with_digits(100 * state_.correct / state_.samples, 2) + " % " +
            with_digits((state_.samples - samples_before) / seconds, 0) + " samples/s");
    state_.epoch += 1;
    state_.consumed = 0;
    state_.loss = state_.correct = state_.samples = 0;
    save();
}

void Training::reduce_totals() {
    const auto totals = metrics_.reduce();
    state_.loss += totals[loss];
    state_.correct += totals[correct];
    state_.samples += totals[samples];
}

/// Only the sums of the epoch need the other ranks; the disk works while training goes on.
void Training::save() {
    if (!checkpoints_) return;
    reduce_totals();
    if (!writer_) return;
    auto checkpoint = to_checkpoint(state_, parameters_, optimizer_.velocities());
    round_->write_to(checkpoint);
    writer_->save(std::move(checkpoint));
}

/// Each rank takes every R-th picture, without the sampler's padding, which would count twice.
double Training::test_accuracy() {
    std::int64_t correct = model_.count_correct(
        test_, static_cast<std::size_t>(world_.rank), static_cast<std::size_t>(world_.world_size));
    group_.all_reduce(&correct, 1).wait();
    return static_cast<double>(correct) / static_cast<double>(test_.size());
}

}  // namespace mnist
