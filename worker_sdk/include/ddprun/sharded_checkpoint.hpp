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

/// The elements of a tensor that one rank holds: `count` elements from `begin` on, in the program's
/// memory. A rank may hold none. Elements are of type float32, float64, int64, float16 or bfloat16.
struct TensorPart {
    std::string name;
    ElementType type = ElementType::float32;
    /// The element count of the whole tensor, on all ranks together.
    std::uint64_t whole_count = 0;
    std::uint64_t begin = 0;
    std::size_t count = 0;
    void* values = nullptr;
};

/// A folder of one run's checkpoints in which each rank writes a separate file with the parts that
/// it holds. On a shared file system that is one folder for all ranks; with local folders each rank
/// reads and writes its own.
///
/// The files of one save are a set. A set is used only when all its files are there, whole, and of
/// the same save, so a save that was interrupted leaves the earlier sets in use. No other run, and
/// no `CheckpointFolder`, may use the folder.
class ShardedFolder {
public:
    /// Keeps the sets with the `keep` newest (round, step), and always the one just written.
    explicit ShardedFolder(std::string path, std::size_t keep = 3);

    const std::string& path() const { return path_; }

    /// A collective: every rank writes its parts, and waits for all. All ranks have the same
    /// tensors in the same order; each element is in the parts of one rank. Only rank 0's
    /// `checkpoint` is used, and is in rank 0's file. Returns the path of this rank's file. Values
    /// are not copied first.
    ///
    /// Throws Error on every rank, naming the rank, when one of them could not write or has invalid
    /// parts (a null pointer, a part outside its tensor). Throws UsageError on every rank when rank
    /// 0's checkpoint is invalid.
    std::string save(
        const ProcessGroup& group,
        Checkpoint checkpoint,
        const std::vector<TensorPart>& parts) const;

    /// A collective: reads the parts of the newest set into their memory. The set may have been
    /// written by another number of ranks, or with other parts. Returns on every rank the
    /// checkpoint that rank 0 saved; none when there is no whole set.
    ///
    /// One rank reads each file, first to check it, then to send it to the others in pieces of 4
    /// MiB: no rank has more than that in memory besides its parts. `passed_over`, if given, gets a
    /// line with the reason for each file that was not whole, on the rank that read it. Throws
    /// Error on every rank when a whole set does not have all these tensors, with these counts and
    /// types; then nothing is written.
    std::optional<Checkpoint> load_newest(
        const ProcessGroup& group,
        const std::vector<TensorPart>& parts,
        std::vector<std::string>* passed_over = nullptr) const;

private:
    std::string path_;
    std::size_t keep_;
};

}  // namespace ddprun
