// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"
#include "ddprun/checkpoint_writer.hpp"
#include "ddprun/distributed_sampler.hpp"
#include "ddprun/metrics.hpp"
#include "ddprun/process_group.hpp"
#include "ddprun/reducer.hpp"
#include "ddprun/world.hpp"
#include "idx_file.hpp"
#include "mlp.hpp"
#include "run_state.hpp"
#include "sgd.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace mnist {

struct TrainingOptions {
    std::string data;
    std::int64_t epochs = 10;
    /// Of each worker; the step takes world size times as many.
    std::size_t batch_size = 64;
    float learning_rate = 0.05F;
    std::int64_t seed = 1;
    /// Empty: no checkpoints.
    std::string checkpoint_dir;
    /// Beside the one after each epoch; 0: only those.
    std::int64_t checkpoint_every = 100;
};

/// One rank's part of the training. Every rank makes one with the same options and data and calls
/// `run`; with the same world size the results are the same bits each time, however often the job
/// was restarted on the way.
class Training {
public:
    Training(
        const TrainingOptions& options,
        const ddprun::World& world,
        const ddprun::ProcessGroup& group,
        const Dataset& train,
        const Dataset& test);

    /// Resumes where the newest checkpoint is, trains what is left of the epochs and tests.
    /// Throws ddprun::Error; UsageError when the checkpoint does not fit the options.
    void run();

private:
    void begin();
    void resume();
    void train_epoch();
    void train_step(const std::uint64_t* batch, std::size_t batch_size);
    void finish_epoch(double seconds, double samples_before);
    void reduce_totals();
    void save();
    double test_accuracy();
    bool is_first() const { return world_.rank == 0; }

    const TrainingOptions& options_;
    const ddprun::World& world_;
    ddprun::ProcessGroup group_;
    const Dataset& train_;
    const Dataset& test_;
    ddprun::Reducer reducer_;
    Numbers parameters_;
    Numbers gradients_;
    Mlp model_;
    Sgd optimizer_;
    ddprun::DistributedSampler sampler_;
    std::optional<ddprun::CheckpointFolder> checkpoints_;
    /// Of the first rank.
    std::optional<ddprun::CheckpointWriter> writer_;
    std::optional<ddprun::CheckpointRound> round_;
    RunState state_;
    /// What the totals in `state_` do not have yet.
    ddprun::Metrics metrics_;
};

}  // namespace mnist
