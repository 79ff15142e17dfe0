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
    /// The batch of each worker; a step uses world size times as many samples.
    std::size_t batch_size = 512;
    /// The maximum of the cycle.
    float learning_rate = 0.4F;
    std::int64_t seed = 1;
    std::size_t width = 64;
    /// The width in pixels; 0: none.
    int cutout = 8;
    /// Batch norm covers all ranks.
    bool sync_norm = false;
    /// Empty: no checkpoints.
    std::string checkpoint_dir;
    /// Steps between checkpoints, in addition to the one after each epoch; 0: only those.
    std::int64_t checkpoint_every = 100;
};

/// Groups of all ranks, for data in the machine's memory and between GPUs.
struct Groups {
    ddprun::ProcessGroup host;
    /// The group for gradients; not used otherwise while they are reduced.
    ddprun::ProcessGroup gradients;
    /// The group for the sums of batch norm.
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

    /// Resumes from the newest checkpoint, trains the remaining epochs and tests. Throws
    /// ddprun::Error; UsageError when the checkpoint does not fit the options.
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
    /// On the first rank only.
    std::optional<ddprun::CheckpointWriter> writer_;
    std::optional<ddprun::CheckpointRound> round_;
    RunState state_;
    /// Sums that are not yet in the totals of `state_`.
    ddprun::Metrics metrics_;
};

}  // namespace cifar
