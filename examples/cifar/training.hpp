// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"
#include "ddprun/checkpoint_writer.hpp"
#include "ddprun/distributed_sampler.hpp"
#include "ddprun/metrics.hpp"
#include "ddprun/process_group.hpp"
#include "ddprun/reducer.hpp"
#include "ddprun/world.hpp"
#include "gpu_network.hpp"
#include "run_state.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace cifar {

struct TrainingOptions {
    std::string data;
    std::int64_t epochs = 24;
    /// Of each worker; the step takes world size times as many.
    std::size_t batch_size = 512;
    /// At the top of the cycle.
    float learning_rate = 0.4F;
    std::int64_t seed = 1;
    std::size_t width = 64;
    /// Pixels a side; 0: none.
    int cutout = 8;
    /// Batch norm over all ranks.
    bool sync_norm = false;
    /// Empty: no checkpoints.
    std::string checkpoint_dir;
    /// Beside the one after each epoch; 0: only those.
    std::int64_t checkpoint_every = 100;
};

/// The ranks of the world, by what is exchanged: through the machine's memory or between the GPUs.
struct Groups {
    ddprun::ProcessGroup host;
    /// Gradients; nothing else while they are reduced.
    ddprun::ProcessGroup gradients;
    /// What batch norm adds up.
    ddprun::ProcessGroup sums;
};

/// One rank's part of the training. Every rank makes one with the same options and data and calls
/// `run`; with the same world size the results are the same bits each time, however often the job
/// was restarted on the way.
class Training {
public:
    Training(
        const TrainingOptions& options,
        const ddprun::World& world,
        const Groups& groups,
        GpuNetwork& network,
        std::size_t train_count,
        std::size_t test_count);

    /// Resumes where the newest checkpoint is, trains what is left of the epochs and tests.
    /// Throws ddprun::Error; UsageError when the checkpoint does not fit the options.
    void run();

private:
    void attach();
    void begin();
    void resume();
    void train_epoch();
    void train_step(std::size_t first, std::size_t count);
    float learning_rate() const;
    void finish_epoch(double seconds, double samples_before);
    void reduce_totals();
    void average_norms();
    void save();
    double test_accuracy();
    bool is_first() const { return world_.rank == 0; }

    const TrainingOptions& options_;
    const ddprun::World& world_;
    Groups groups_;
    GpuNetwork& network_;
    std::size_t train_count_;
    std::size_t test_count_;
    Architecture architecture_;
    ddprun::Reducer reducer_;
    ddprun::DistributedSampler sampler_;
    std::optional<ddprun::CheckpointFolder> checkpoints_;
    /// Of the first rank.
    std::optional<ddprun::CheckpointWriter> writer_;
    std::optional<ddprun::CheckpointRound> round_;
    RunState state_;
    /// What the totals in `state_` do not have yet.
    ddprun::Metrics metrics_;
};

}  // namespace cifar
