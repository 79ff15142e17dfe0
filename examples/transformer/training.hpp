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
    /// Windows of one step, of all ranks together: so the steps are the same for every world size.
    std::uint64_t batch = 24;
    /// The backward passes that a rank makes in one step, for less memory.
    std::uint64_t passes = 1;
    float rate = 3e-3F;
    float clip = 1.0F;
    std::uint64_t seed = 1;
    /// Empty: no checkpoints.
    std::string folder;
    /// Steps between checkpoints, beside the one after each epoch; 0: only those.
    std::int64_t save_every = 50;
};

/// One rank's part of the training of a character-level transformer. It may be killed at any
/// moment and go on from its checkpoint with another number of ranks: every window is used exactly
/// once in an epoch, which it counts and says.
class Training {
public:
    /// Throws ddprun::UsageError for options that do not fit together.
    Training(
        const Options& options,
        const ddprun::World& world,
        const ddprun::ProcessGroup& group,
        const Corpus& corpus);

    /// False: it has ended early, because a stop was announced; all is saved.
    bool run();

    /// A text that goes on from this one.
    std::string completed(const std::string& beginning, std::size_t characters) const;

private:
    /// Where the run is between two steps. Of the job, not of a rank.
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
    /// one since.
    std::vector<float> uses_, own_uses_;
    std::optional<ddprun::CheckpointFolder> folder_;
    std::optional<ddprun::CheckpointRound> round_;
    /// Of rank 0. The last: it ends, and has written, before what it writes.
    std::optional<ddprun::CheckpointWriter> writer_;
};

}  // namespace transformer
