// SPDX-License-Identifier: Apache-2.0
#include "training.hpp"

#include "ddprun/error.hpp"
#include "ddprun/shared_checkpoint.hpp"
#include "divergence.hpp"
#include "mlp.hpp"
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

using Clock = std::chrono::steady_clock;

/// The sums over an epoch.
enum Metric : std::size_t { loss, correct, samples, metric_count };

/// A run must continue with the settings that it began with; `what` names one, such as "seed".
void refuse_other(
    const std::string& path,
    const std::string& what,
    const std::string& then,
    const std::string& now) {
    if (then == now) return;
    throw ddprun::UsageError(
        path + " was written with --" + what + " " + then + ", this run has --" + what + " " + now +
        "\ngive the same " + what + ", or another --checkpoint-dir");
}

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Training::Training(
    const TrainingOptions& options,
    const ddprun::World& world,
    const ddprun::ProcessGroup& group,
    const ddprun::ProcessGroup& averaging,
    std::unique_ptr<Engine> engine,
    const SampleCounts& counts)
    : options_(options),
      world_(world),
      group_(group),
      counts_(counts),
      reducer_(averaging, specs()),
      sampler_(
          counts.train,
          world.world_size,
          world.rank,
          {true, static_cast<std::uint64_t>(options.seed), false}),
      metrics_(group, metric_count),
      engine_(std::move(engine)) {
    if (!options.checkpoint_dir.empty()) checkpoints_.emplace(options.checkpoint_dir);
    if (checkpoints_ && is_first()) writer_.emplace(*checkpoints_);
    state_.seed = options.seed;
    state_.optimizer = options.optimizer;
    attach();
}

void Training::attach() {
    Exchange exchange;
    exchange.parameters = views(reducer_, &ddprun::Reducer::param);
    exchange.gradients = views(reducer_, &ddprun::Reducer::grad);
    exchange.ready = [this](std::size_t parameter) { reducer_.mark_ready(parameter); };
    exchange.commit_word = reducer_.commit_word();
    exchange.step = [this](const std::function<void()>& update) { reducer_.step(update); };
    exchange.replay = [this](const std::function<void()>& launch) { reducer_.replay(launch); };
    exchange.synchronize = [this] { reducer_.synchronize(); };
    engine_->attach(std::move(exchange));
}

void Training::run() {
    say("rank " + std::to_string(world_.rank) + " of " + std::to_string(world_.world_size) + ": " +
        std::to_string(sampler_.size()) + " samples");
    begin();
    while (state_.epoch < options_.epochs)
        train_epoch();
    if (writer_) writer_->wait();  // the last checkpoint must be written too
    const double accuracy = test_accuracy();
    if (is_first()) say("test accuracy " + with_digits(100 * accuracy, 2) + " %");
}

void Training::begin() {
    Mlp{engine_->numbers().parameters, {}}.initialise(static_cast<std::uint64_t>(options_.seed));
    if (checkpoints_) resume();
    engine_->put();
    reducer_.broadcast_parameters();
}

/// All ranks load the same checkpoint, so all of them refuse it for the same reason.
void Training::resume() try {
    std::vector<std::string> passed_over;
    const auto found = ddprun::load_newest(*checkpoints_, group_, &passed_over);
    for (const auto& line : passed_over)
        std::fprintf(stderr, "checkpoint passed over: %s\n", line.c_str());
    round_.emplace(world_, found ? &found->checkpoint : nullptr);
    if (!found) return;

    const auto state = state_in(found->checkpoint);
    refuse_other(found->path, "seed", std::to_string(state.seed), std::to_string(state_.seed));
    refuse_other(found->path, "optimizer", name_of(state.optimizer), name_of(state_.optimizer));
    take_numbers(found->checkpoint, engine_->numbers());
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
    const auto start = Clock::now();
    const double samples_before = state_.samples;
    const auto epoch = static_cast<std::uint64_t>(state_.epoch);
    sampler_.set_epoch(epoch);
    sampler_.resume(
        {static_cast<std::uint64_t>(state_.seed),
         epoch,
         static_cast<std::uint64_t>(state_.consumed)});
    const auto indices = sampler_.indices();
    engine_->begin_epoch(indices, static_cast<std::uint64_t>(state_.step));

    {
        Progress progress{
            "epoch " + std::to_string(state_.epoch + 1) + "/" + std::to_string(options_.epochs) +
                ": sample",
            indices.size()};
        for (std::size_t next = 0; next < indices.size();) {
            const auto batch_size = std::min(options_.batch_size, indices.size() - next);
            train_step(batch_size);
            next += batch_size;
            if (is_first()) progress.update(next);
            const bool is_due =
                options_.checkpoint_every > 0 && state_.step % options_.checkpoint_every == 0;
            if (is_due && next < indices.size()) save();
        }
    }
    finish_epoch(start, samples_before);
}

void Training::train_step(std::size_t batch_size) {
    engine_->step(batch_size);
    new_samples_ += static_cast<double>(batch_size);
    ++state_.step;
    state_.consumed += static_cast<std::int64_t>(batch_size) * world_.world_size;
}

void Training::finish_epoch(Clock::time_point start, double samples_before) {
    reduce_totals();  // which waits for a GPU
    const double seconds = seconds_since(start);
    if (is_first())
        say("epoch " + std::to_string(state_.epoch + 1) + "/" + std::to_string(options_.epochs) +
            " loss " + with_digits(state_.loss / state_.samples, 4) + " accuracy " +
            with_digits(100 * state_.correct / state_.samples, 2) + " % " +
            with_digits((state_.samples - samples_before) / seconds, 0) + " samples/s" +
            engine_->memory_use());
    if (checkpoints_) refuse_diverged(state_.loss, state_.step);
    state_.epoch += 1;
    state_.consumed = 0;
    state_.loss = state_.correct = state_.samples = 0;
    save();
}

void Training::reduce_totals() {
    const auto sums = engine_->take_sums();
    metrics_.add(loss, sums.loss);
    metrics_.add(correct, sums.correct);
    metrics_.add(samples, std::exchange(new_samples_, 0));
    const auto totals = metrics_.reduce();
    state_.loss += totals[loss];
    state_.correct += totals[correct];
    state_.samples += totals[samples];
}

/// Only the epoch's sums need the other ranks; the disk works while training continues.
void Training::save() {
    if (!checkpoints_) return;
    reduce_totals();
    refuse_diverged(state_.loss, state_.step);
    if (!writer_) return;
    engine_->fetch();
    auto checkpoint = to_checkpoint(state_, engine_->numbers());
    round_->write_to(checkpoint);
    writer_->save(std::move(checkpoint));
}

/// Each rank tests every R-th picture. The sampler's padding would count pictures twice.
double Training::test_accuracy() {
    std::int64_t correct = engine_->count_correct(
        static_cast<std::size_t>(world_.rank), static_cast<std::size_t>(world_.world_size));
    group_.all_reduce(&correct, 1).wait();
    return static_cast<double>(correct) / static_cast<double>(counts_.test);
}

}  // namespace mnist
