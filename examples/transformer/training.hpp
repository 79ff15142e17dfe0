// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "adam_w.hpp"
#include "corpus.hpp"
#include "ddprun/checkpoint.hpp"
#include "ddprun/checkpoint_writer.hpp"
#include "ddprun/distributed_sampler.hpp"
#include "ddprun/process_group.hpp"
#include "ddprun/reducer.hpp"
#include "ddprun/world.hpp"
#include "model.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace transformer {

struct Options {
    Shape shape;
    std::int64_t epochs = 4;
    /// Windows of one step over all ranks, so that steps are the same for every world size.
    std::uint64_t batch = 24;
    /// How many backward passes a rank makes in one step, to save memory.
    std::uint64_t passes = 1;
    float rate = 3e-3F;
    float clip = 1.0F;
    std::uint64_t seed = 1;
    /// Empty: no checkpoints.
    std::string folder;
    /// Steps between checkpoints, in addition to the one after each epoch; 0: only those.
    std::int64_t save_every = 50;
};

/// One rank's part of the training of a character-level transformer. It may be killed at any moment
/// and resume from its checkpoint with another number of ranks. Every window is used exactly once
/// in an epoch; the program counts that and prints it.
class Training {
public:
    /// Throws ddprun::UsageError for options that do not fit together.
    Training(
        const Options& options,
        const ddprun::World& world,
        const ddprun::ProcessGroup& group,
        const Corpus& corpus);

    /// Returns false when it ended early because a stop was announced; all is saved then.
    bool run();

    /// A text that continues this one.
    std::string completed(const std::string& beginning, std::size_t characters) const;

private:
    /// The position of the run between two steps, the same for all ranks.
    struct State {
        std::int64_t step = 0;
        std::uint64_t epoch = 0;
        /// Windows of this epoch, and the sum of their losses.
        std::uint64_t windows = 0;
        double loss = 0;
    };

    void resume();
    bool train_epoch();
    /// Returns whether any rank was asked to stop.
    bool train_step(const std::uint64_t* indices, std::size_t count);
    void update();
    float rate() const;
    void count_uses();
    void end_epoch();
    void save();
    std::int64_t steps_per_epoch() const;
    std::vector<ddprun::TensorTarget> tensors();

    Options options_;
    const ddprun::World& world_;
    ddprun::ProcessGroup group_;
    const Corpus& corpus_;
    std::vector<ddprun::ParameterSpec> specs_;
    ddprun::Reducer reducer_;
    Model model_;
    AdamW optimizer_;
    ddprun::DistributedSampler sampler_;
    State state_;
    /// How often each window was used in this epoch: by all ranks until the last count, and by this
    /// rank since.
    std::vector<float> uses_, own_uses_;
    std::optional<ddprun::CheckpointFolder> folder_;
    std::optional<ddprun::CheckpointRound> round_;
    /// On rank 0 only. Declared last: it finishes writing before other members are destroyed.
    std::optional<ddprun::CheckpointWriter> writer_;
};

}  // namespace transformer
