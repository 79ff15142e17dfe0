// SPDX-License-Identifier: Apache-2.0
#include "training.hpp"

#include "ddprun/error.hpp"
#include "ddprun/shared_checkpoint.hpp"
#include "mnist/divergence.hpp"
#include "mnist/progress.hpp"
#include "schedule.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

namespace cifar {
namespace {

using mnist::say;
using mnist::with_digits;

std::vector<ddprun::ParameterSpec> specs_of(const Architecture& architecture) {
    std::vector<ddprun::ParameterSpec> all;
    for (const auto& parameter : architecture.parameters)
        all.push_back({parameter.name, parameter.count()});
    return all;
}

std::vector<float*> views(
    const ddprun::Reducer& reducer, float* (ddprun::Reducer::*view)(std::size_t) const) {
    std::vector<float*> all;
    for (std::size_t i = 0; i < reducer.parameter_count(); ++i)
        all.push_back((reducer.*view)(i));
    return all;
}

/// The sums over an epoch.
enum Metric : std::size_t { loss, correct, samples, metric_count };

/// A run must continue with the settings that it began with.
void refuse_other(
    const std::string& path, const std::string& option, std::int64_t then, std::int64_t now) {
    if (then == now) return;
    throw ddprun::UsageError(
        path + " was written with " + option + " " + std::to_string(then) + ", this run has " +
        option + " " + std::to_string(now) + "\ngive the same, or another --checkpoint-dir");
}

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Training::Training(
    const TrainingOptions& options,
    const ddprun::World& world,
    const Groups& groups,
    GpuNetwork& network,
    std::size_t train_count,
    std::size_t test_count)
    : options_(options),
      world_(world),
      groups_(groups),
      network_(network),
      train_count_(train_count),
      test_count_(test_count),
      architecture_(make_architecture(options.width)),
      reducer_(groups.gradients, specs_of(architecture_)),
      sampler_(
          train_count,
          world.world_size,
          world.rank,
          {true, static_cast<std::uint64_t>(options.seed), false}),
      metrics_(groups.host, metric_count) {
    if (!options.checkpoint_dir.empty()) checkpoints_.emplace(options.checkpoint_dir);
    if (checkpoints_ && is_first()) writer_.emplace(*checkpoints_);
    state_.seed = options.seed;
    state_.width = static_cast<std::int64_t>(options.width);
    attach();
}

void Training::attach() {
    network_.place(
        views(reducer_, &ddprun::Reducer::param), views(reducer_, &ddprun::Reducer::grad));
    if (!options_.sync_norm) return;
    network_.synchronise_norm(world_.world_size, [this](float* sums, std::size_t count) {
        groups_.sums.all_reduce(sums, count).wait();
    });
}

void Training::run() {
    say("rank " + std::to_string(world_.rank) + " of " + std::to_string(world_.world_size) + ": " +
        std::to_string(sampler_.size()) + " samples, " + network_.device_name());
    begin();
    while (state_.epoch < options_.epochs)
        train_epoch();
    if (writer_) writer_->wait();  // the last checkpoint must be written too
    const double accuracy = test_accuracy();
    if (is_first()) say("test accuracy " + with_digits(100 * accuracy, 2) + " %");
}

void Training::begin() {
    for (std::size_t i = 0; i < architecture_.parameters.size(); ++i)
        network_.set_parameter(
            i, initial_values(architecture_, i, static_cast<std::uint64_t>(options_.seed)));
    if (checkpoints_) resume();
    reducer_.broadcast_parameters();
    network_.refresh();
}

/// All ranks load the same checkpoint, so all of them refuse it for the same reason.
void Training::resume() try {
    std::vector<std::string> passed_over;
    const auto found = ddprun::load_newest(*checkpoints_, groups_.host, &passed_over);
    for (const auto& line : passed_over)
        std::fprintf(stderr, "checkpoint passed over: %s\n", line.c_str());
    round_.emplace(world_, found ? &found->checkpoint : nullptr);
    if (!found) return;

    const auto state = state_in(found->checkpoint);
    refuse_other(found->path, "--seed", state.seed, state_.seed);
    refuse_other(found->path, "--width", state.width, state_.width);
    take_numbers(found->checkpoint, architecture_, network_);
    state_ = state;
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
    const auto order = sampler_.indices();
    network_.begin_epoch(epoch, order);

    {
        mnist::Progress progress{
            "epoch " + std::to_string(state_.epoch + 1) + "/" + std::to_string(options_.epochs) +
                ": image",
            order.size()};
        for (std::size_t next = 0; next < order.size();) {
            const auto count = std::min(options_.batch_size, order.size() - next);
            train_step(next, count);
            next += count;
            if (is_first()) progress.update(next);
            const bool is_due =
                options_.checkpoint_every > 0 && state_.step % options_.checkpoint_every == 0;
            if (is_due && next < order.size()) save();
        }
        reduce_totals();
    }
    finish_epoch(seconds_since(start), samples_before);
}

float Training::learning_rate() const {
    const auto of_epoch =
        std::min(1.0, static_cast<double>(state_.consumed) / static_cast<double>(train_count_));
    const double progress =
        (static_cast<double>(state_.epoch) + of_epoch) / static_cast<double>(options_.epochs);
    return one_cycle(progress, options_.learning_rate);
}

void Training::train_step(std::size_t first, std::size_t count) {
    // Batch norm's sums over all ranks continue until the end of backward. Two NCCL communicators
    // at work at once may wait for each other for ever, so the gradients are reduced afterwards.
    std::vector<std::size_t> later;
    network_.train(first, count, [&](std::size_t i) {
        if (options_.sync_norm)
            later.push_back(i);
        else
            reducer_.mark_ready(i);
    });
    for (const auto i : later)
        reducer_.mark_ready(i);
    reducer_.step([this] { network_.update(learning_rate(), reducer_.commit_word()); });

    metrics_.add(samples, static_cast<double>(count));
    ++state_.step;
    state_.consumed += static_cast<std::int64_t>(count) * world_.world_size;
}

void Training::finish_epoch(double seconds, double samples_before) {
    if (is_first())
        say("epoch " + std::to_string(state_.epoch + 1) + "/" + std::to_string(options_.epochs) +
            " loss " + with_digits(state_.loss / state_.samples, 4) + " accuracy " +
            with_digits(100 * state_.correct / state_.samples, 2) + " % " +
            with_digits((state_.samples - samples_before) / seconds, 0) + " images/s " +
            with_digits(static_cast<double>(network_.memory_used()) / 1e9, 2) +
            " GB of the GPU's memory");
    if (checkpoints_) mnist::refuse_diverged(state_.loss, state_.step);
    state_.epoch += 1;
    state_.consumed = 0;
    state_.loss = state_.correct = state_.samples = 0;
    save();
}

/// Waits for the GPU.
void Training::reduce_totals() {
    reducer_.synchronize();
    const auto mine = network_.take_totals();
    metrics_.add(loss, mine.loss);
    metrics_.add(correct, mine.correct);
    const auto totals = metrics_.reduce();
    state_.loss += totals[loss];
    state_.correct += totals[correct];
    state_.samples += totals[samples];
}

/// Unless batch norm covers all ranks, their running averages are of different pictures.
void Training::average_norms() {
    groups_.sums.all_reduce(network_.running(), network_.running_count(), ddprun::Op::average)
        .wait();
}

/// The disk works while training continues.
void Training::save() {
    if (!checkpoints_) return;
    reduce_totals();
    mnist::refuse_diverged(state_.loss, state_.step);
    average_norms();
    if (!writer_) return;
    auto checkpoint = to_checkpoint(state_, architecture_, network_);
    round_->write_to(checkpoint);
    writer_->save(std::move(checkpoint));
}

/// Each rank tests every R-th picture. The sampler's padding would count pictures twice.
double Training::test_accuracy() {
    average_norms();
    std::int64_t right = network_.count_correct(
        static_cast<std::size_t>(world_.rank), static_cast<std::size_t>(world_.world_size));
    groups_.host.all_reduce(&right, 1).wait();
    return static_cast<double>(right) / static_cast<double>(test_count_);
}

}  // namespace cifar
