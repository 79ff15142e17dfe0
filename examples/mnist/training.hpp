// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"
#include "ddprun/checkpoint_writer.hpp"
#include "ddprun/distributed_sampler.hpp"
#include "ddprun/metrics.hpp"
#include "ddprun/process_group.hpp"
#include "ddprun/reducer.hpp"
#include "ddprun/world.hpp"
#include "engine.hpp"
#include "run_state.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace mnist {

struct TrainingOptions {
    std::string data;
    std::int64_t epochs = 10;
    /// The batch of each worker; a step uses world size times as many samples.
    std::size_t batch_size = 64;
    OptimizerKind optimizer = OptimizerKind::sgd;
    float learning_rate = 0.05F;
    std::int64_t seed = 1;
    /// Empty: no checkpoints.
    std::string checkpoint_dir;
    /// Steps between checkpoints, in addition to the one after each epoch; 0: only those.
    std::int64_t checkpoint_every = 100;
};

/// How many samples this rank trains and tests; the engine has the samples.
struct SampleCounts {
    std::size_t train = 0;
    std::size_t test = 0;
};

/// One rank's part of the training. Every rank makes one with the same options and data and calls
/// `run`; with the same world size and device the results are the same bits each time, however
/// often the job was restarted on the way.
class Training {
public:
    /// `group` is for data in the machine's memory. If the engine uses a GPU, `averaging` is an
    /// nccl group on it, else the same group.
    Training(
        const TrainingOptions& options,
        const ddprun::World& world,
        const ddprun::ProcessGroup& group,
        const ddprun::ProcessGroup& averaging,
        std::unique_ptr<Engine> engine,
        const SampleCounts& counts);

    /// Resumes from the newest checkpoint, trains the remaining epochs and tests. Throws
    /// ddprun::Error; UsageError when the checkpoint does not fit the options.
    void run();

private:
    void begin();
    void resume();
    void train_epoch();
    void train_step(std::size_t batch_size);
    void attach();
    void finish_epoch(std::chrono::steady_clock::time_point start, double samples_before);
    void reduce_totals();
    void save();
    double test_accuracy();
    bool is_first() const { return world_.rank == 0; }

    const TrainingOptions& options_;
    const ddprun::World& world_;
    ddprun::ProcessGroup group_;
    SampleCounts counts_;
    ddprun::Reducer reducer_;
    ddprun::DistributedSampler sampler_;
    std::optional<ddprun::CheckpointFolder> checkpoints_;
    /// On the first rank only.
    std::optional<ddprun::CheckpointWriter> writer_;
    std::optional<ddprun::CheckpointRound> round_;
    RunState state_;
    /// Sums that are not yet in the totals of `state_`.
    double new_samples_ = 0;
    ddprun::Metrics metrics_;
    /// Declared last, so that it is destroyed first. It may hold recorded reductions, and NCCL does
    /// not release a group before those are destroyed. This must not wait for the writer's disk
    /// either.
    std::unique_ptr<Engine> engine_;
};

}  // namespace mnist
