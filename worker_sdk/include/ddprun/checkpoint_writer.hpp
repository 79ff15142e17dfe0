// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"

#include <memory>
#include <string>

namespace ddprun {

/// Writes checkpoints on a thread of its own, so that training goes on while the disk works.
///
/// At most two are in memory: the one being written, and the newest that waits. One that still
/// waits when the next comes is dropped: the disk is slower than the steps between two saves, and
/// the later one says more. For one thread; the folder is the writer's alone (one writer at a time,
/// rank 0).
class CheckpointWriter {
public:
    explicit CheckpointWriter(CheckpointFolder folder);
    /// Waits until what was given to it is written. Says an error on standard error, since nobody
    /// else would hear of it.
    ~CheckpointWriter();

    CheckpointWriter(const CheckpointWriter&) = delete;
    CheckpointWriter& operator=(const CheckpointWriter&) = delete;

    /// Takes the value, returns at once. Throws Error when an earlier one could not be written
    /// (told once; the checkpoint given here is taken all the same).
    void save(Checkpoint checkpoint);

    /// Waits until everything given so far is written or dropped. Returns the path of the newest
    /// one written, empty when there is none. Throws Error when one could not be written.
    std::string wait();

private:
    class State;
    std::unique_ptr<State> state_;
};

}  // namespace ddprun
