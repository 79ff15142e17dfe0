// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"
#include "ddprun/element_type.hpp"
#include "ddprun/process_group.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// The elements of a tensor that one rank holds: `count` from `begin` on, in memory of the
/// program's. A rank may hold none. Elements are of type float32, float64, int64, float16 or
/// bfloat16.
struct TensorPart {
    std::string name;
    ElementType type = ElementType::float32;
    /// Of the tensor, on all ranks together.
    std::uint64_t whole_count = 0;
    std::uint64_t begin = 0;
    std::size_t count = 0;
    void* values = nullptr;
};

/// A folder of one run's checkpoints in which each rank writes a file of its own with what it
/// holds. On a shared file system that is one folder for all ranks; with local folders each rank
/// reads and writes its own.
///
/// The files of one save are a set. A set counts when all its files are there, whole, and of the
/// same save: a save that was interrupted leaves the sets before it in use. No other run, and no
/// `CheckpointFolder`, uses the folder.
class ShardedFolder {
public:
    /// The sets of the `keep` newest (round, step) are kept, and always the one just written.
    explicit ShardedFolder(std::string path, std::size_t keep = 3);

    const std::string& path() const { return path_; }

    /// A collective: every rank writes its parts, and waits for all. All ranks have the same
    /// tensors in the same order; each element is in the parts of one rank. `checkpoint` counts on
    /// rank 0 alone, whose file has it. Returns the path of this rank's file. Values are written
    /// from where they are.
    ///
    /// Throws Error on every rank, naming the rank, when one of them could not write or its parts
    /// are none (a null pointer, a part outside its tensor); UsageError on every rank when rank 0's
    /// checkpoint cannot be written.
    std::string save(
        const ProcessGroup& group,
        Checkpoint checkpoint,
        const std::vector<TensorPart>& parts) const;

    /// A collective: reads the parts of the newest set into their memory, also with another number
    /// of ranks, or with other parts, than wrote it. Returns rank 0's checkpoint of then, on every
    /// rank; none when there is no whole set.
    ///
    /// Each file is read by one rank, first to check it, and sent to the others in pieces of 4 MiB:
    /// no rank has more than that in memory beside its parts. `passed_over`, if given, gets a line
    /// with the reason for each file that was not whole, on the rank that read it. Throws Error on
    /// every rank for a whole set that does not have all these tensors, with these counts and
    /// types; nothing is written then.
    std::optional<Checkpoint> load_newest(
        const ProcessGroup& group,
        const std::vector<TensorPart>& parts,
        std::vector<std::string>* passed_over = nullptr) const;

private:
    std::string path_;
    std::size_t keep_;
};

}  // namespace ddprun
