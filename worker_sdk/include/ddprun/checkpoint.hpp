// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/element_type.hpp"
#include "ddprun/world.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// Marks a tensor as a part of a larger one, which has `whole_count` elements: the part's elements
/// are those of the whole from index `begin` on. With a `whole_count` of 0 the tensor is not a
/// part. The files of a `ShardedFolder` contain parts.
struct PartOfTensor {
    std::uint64_t begin = 0;
    std::uint64_t whole_count = 0;
};

/// A named array of numbers. Its element count is the product of the shape; an empty shape means
/// one number.
struct Tensor {
    using Values = std::variant<
        std::vector<float>,
        std::vector<double>,
        std::vector<std::int64_t>,
        std::vector<BFloat16>,
        std::vector<Float16>>;

    std::string name;
    std::vector<std::uint64_t> shape;
    Values values;
    PartOfTensor part = {};
};

/// A named array of numbers in the program's memory, of type float32, float64, int64, bfloat16 or
/// float16.
struct TensorView {
    std::string name;
    const void* values = nullptr;
    std::size_t count = 0;
    ElementType type = ElementType::float32;
    PartOfTensor part = {};
};

/// The program's memory into which the tensor of this name and type is read from a checkpoint. Two
/// targets of the same name, or null `values` with a count above 0, are a UsageError.
struct TensorTarget {
    std::string name;
    void* values = nullptr;
    std::size_t count = 0;
    ElementType type = ElementType::float32;
};

/// What a training run needs to resume: tensors by name and short texts by key. A plain value.
///
/// The newer of two checkpoints is the one with the larger (round, step), so a late write by a
/// worker of an old round never hides a checkpoint of a later round. Rounds are counted from 0 in
/// each incarnation of a job: take the round to write from `CheckpointRound`.
struct Checkpoint {
    static constexpr std::uint64_t no_round = ~std::uint64_t{0};

    /// A checkpoint without a round cannot be saved: see `CheckpointRound::write_to`.
    std::uint64_t round = no_round;
    std::uint64_t step = 0;
    std::map<std::string, std::string> texts;
    std::vector<Tensor> tensors;
    /// Added by `add_view` and saved as tensors. A loaded checkpoint has no views.
    std::vector<TensorView> views;

    /// Appends a tensor. Whether names are unique and shapes fit is checked when the checkpoint is
    /// written.
    void add(std::string name, std::vector<std::uint64_t> shape, Tensor::Values values);
    /// Adds a list of floats (copied), or one number.
    void add(std::string name, const float* values, std::size_t count);
    void add(std::string name, std::int64_t number);
    void add(std::string name, double number);
    /// Adds a list of floats without copying it: the memory must stay valid and unchanged until
    /// `CheckpointFolder::save` has returned. (`CheckpointWriter::save` copies it.)
    void add_view(std::string name, const float* values, std::size_t count);
    /// Like `add_view`, for another element type.
    void add_view_raw(std::string name, const void* values, std::size_t count, ElementType type);

    /// Null when there is no tensor of that name; views are not searched.
    const Tensor* find(const std::string& name) const;

    /// Each of these throws Error, which names the tensor or text, when it is missing or has
    /// another type or count.
    void copy_to(const std::string& name, float* values, std::size_t count) const;
    std::int64_t integer(const std::string& name) const;
    double real(const std::string& name) const;
    const std::string& text(const std::string& key) const;
};

/// Computes the round to write into checkpoints. A job that is started again counts its rounds from
/// 0. The round computed here continues from that of the resumed checkpoint: it grows over the
/// whole life of a folder, so that the last write is the newest.
class CheckpointRound {
public:
    /// `resumed` is the checkpoint this run resumes from, or null. Only the rank that writes needs
    /// a CheckpointRound.
    CheckpointRound(const World& world, const Checkpoint* resumed);

    std::uint64_t number() const { return base_ + round_; }

    /// Sets the round, and the texts from which the next run computes its base.
    void write_to(Checkpoint& checkpoint) const;

private:
    std::string incarnation_;
    std::uint64_t base_ = 0;
    std::uint64_t round_ = 0;
};

/// A folder of one run's checkpoints, with one writer at a time (rank 0).
///
/// A checkpoint exists whole or not at all: it is written under a temporary name, flushed to the
/// disk and renamed, and the folder is flushed. If a file is damaged nevertheless, its checksum
/// shows it, and the checkpoint before it is used. This class makes no collective call, so a slow
/// save delays no other rank.
class CheckpointFolder {
public:
    /// Keeps the `keep` newest checkpoints, at least 1, and always the one just written. The
    /// constructor touches no file.
    explicit CheckpointFolder(std::string path, std::size_t keep = 3);

    const std::string& path() const { return path_; }

    /// Creates the folder if it does not exist, writes the file, then removes all but the `keep`
    /// newest checkpoints and the unfinished files of earlier writers. Returns the file's path.
    /// Does not copy the values. Throws Error with path and reason; the earlier checkpoints are
    /// then still there. Throws UsageError for a checkpoint that is invalid, or has no round.
    std::string save(const Checkpoint& checkpoint) const;

    struct Found {
        Checkpoint checkpoint;
        std::string path;
    };

    /// Returns the newest whole checkpoint, if there is one. `passed_over`, if given, gets a line
    /// with the reason for each newer file that was not whole. Throws Error when the folder itself
    /// cannot be read.
    std::optional<Found> newest(std::vector<std::string>* passed_over = nullptr) const;
    /// The same, but reads the values of these tensors directly into their targets, so that the
    /// model is not in memory twice. The file is first read once to check it, without keeping it:
    /// targets are written only from a whole file that has all of them, with their counts and
    /// types. If the newest whole file does not have them, this throws Error and writes nothing. If
    /// the second reading fails, it throws Error and the targets are partly written.
    std::optional<Found> newest(
        const std::vector<TensorTarget>& targets,
        std::vector<std::string>* passed_over = nullptr) const;

private:
    std::string path_;
    std::size_t keep_;
};

/// Reads one file. Throws Error when it cannot be read, is no checkpoint, is cut short or damaged.
Checkpoint read_checkpoint(const std::string& path);
/// Reads one file into targets, as `CheckpointFolder::newest` does.
Checkpoint read_checkpoint(const std::string& path, const std::vector<TensorTarget>& targets);

}  // namespace ddprun
