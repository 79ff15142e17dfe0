// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"

#include <memory>
#include <string>

namespace ddprun {

/// Writes checkpoints on its own thread, so that training continues during the write.
///
/// At most two checkpoints are in memory: the one being written and the newest one waiting. When
/// the disk is too slow, each save replaces the checkpoint that is still waiting. All calls come
/// from one thread. No other writer may use the folder meanwhile: only rank 0 writes.
class CheckpointWriter {
public:
    explicit CheckpointWriter(CheckpointFolder folder);
    /// Waits until all saved checkpoints are written. Prints an error to standard error, since a
    /// destructor cannot throw it.
    ~CheckpointWriter();

    CheckpointWriter(const CheckpointWriter&) = delete;
    CheckpointWriter& operator=(const CheckpointWriter&) = delete;

    /// Queues the checkpoint and returns at once. Throws Error once when an earlier checkpoint
    /// could not be written; the checkpoint of this call is queued nevertheless.
    void save(Checkpoint checkpoint);

    /// Waits until every checkpoint saved so far is written or dropped. Returns the path of the
    /// newest one written, empty when there is none. Throws Error when one could not be written.
    std::string wait();

private:
    class State;
    std::unique_ptr<State> state_;
};

}  // namespace ddprun
