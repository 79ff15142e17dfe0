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

/// Which elements of a tensor another one has that is a part of it: as many as it has itself, from
/// `begin` on, of `whole_count`. Without `whole_count` it is no part. The files of a
/// `ShardedFolder` have parts.
struct PartOfTensor {
    std::uint64_t begin = 0;
    std::uint64_t whole_count = 0;
};

/// Numbers with a name. The product of the shape is their count; without a shape it is one number.
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

/// A list of numbers with a name, in memory of the program's: of type float32, float64, int64,
/// bfloat16 or float16.
struct TensorView {
    std::string name;
    const void* values = nullptr;
    std::size_t count = 0;
    ElementType type = ElementType::float32;
    PartOfTensor part = {};
};

/// Memory of the program's for the numbers of that name, and of that type, in a checkpoint that is
/// read. Two targets of one name, or null `values` with a count, are a UsageError.
struct TensorTarget {
    std::string name;
    void* values = nullptr;
    std::size_t count = 0;
    ElementType type = ElementType::float32;
};

/// What a training run needs to resume: tensors by name and short texts by key. A plain value.
///
/// Of two checkpoints the one with the larger (round, step) is the newer. So a late write of a
/// worker of an old round never hides a checkpoint of a later round. Rounds are counted from 0 in
/// each incarnation of a job: take the round to write from `CheckpointRound`.
struct Checkpoint {
    static constexpr std::uint64_t no_round = ~std::uint64_t{0};

    /// A checkpoint without one cannot be saved: see `CheckpointRound::write_to`.
    std::uint64_t round = no_round;
    std::uint64_t step = 0;
    std::map<std::string, std::string> texts;
    std::vector<Tensor> tensors;
    /// Saved as tensors: a loaded checkpoint has none. See `add_view`.
    std::vector<TensorView> views;

    /// Appends. That names differ and shapes fit is checked when the checkpoint is written.
    void add(std::string name, std::vector<std::uint64_t> shape, Tensor::Values values);
    /// A list of floats (copied), or one number.
    void add(std::string name, const float* values, std::size_t count);
    void add(std::string name, std::int64_t number);
    void add(std::string name, double number);
    /// A list of floats that is not copied: it must stay, and stay the same, until
    /// `CheckpointFolder::save` has returned. (`CheckpointWriter::save` copies it.)
    void add_view(std::string name, const float* values, std::size_t count);
    /// The same of another type.
    void add_view_raw(std::string name, const void* values, std::size_t count, ElementType type);

    /// Null when there is no tensor of that name; views are not searched.
    const Tensor* find(const std::string& name) const;

    /// These throw Error, with the name, when the tensor or text is missing or has another type or
    /// count.
    void copy_to(const std::string& name, float* values, std::size_t count) const;
    std::int64_t integer(const std::string& name) const;
    double real(const std::string& name) const;
    const std::string& text(const std::string& key) const;
};

/// Which round to write into checkpoints. A job that is started again counts its rounds from 0;
/// this number continues from the resumed checkpoint's, so that it grows over the whole life of a
/// folder and the last write is the newest.
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
/// A checkpoint is there whole or not at all: it is written under a temporary name, flushed to the
/// disk, renamed, and the folder is flushed. A file that is damaged nevertheless is detected by its
/// checksum, and the one before it is used. Makes no collective call, so a slow save delays no
/// other rank.
class CheckpointFolder {
public:
    /// The `keep` newest are kept, and always the one just written; at least 1. Touches no file
    /// yet.
    explicit CheckpointFolder(std::string path, std::size_t keep = 3);

    const std::string& path() const { return path_; }

    /// Creates the folder when there is none, writes, then removes all but the `keep` newest
    /// checkpoints and the unfinished files of earlier writers. Returns the file's path. Needs no
    /// memory for the values. Throws Error with path and reason; the earlier checkpoints are then
    /// still there. Throws UsageError for a checkpoint that is invalid, or has no round.
    std::string save(const Checkpoint& checkpoint) const;

    struct Found {
        Checkpoint checkpoint;
        std::string path;
    };

    /// The newest whole checkpoint, if there is one. `passed_over`, if given, gets a line with the
    /// reason for each newer file that was not whole. Throws Error when the folder itself cannot be
    /// read.
    std::optional<Found> newest(std::vector<std::string>* passed_over = nullptr) const;
    /// The same, and the values of these tensors are read into their targets and nowhere else, so
    /// that a model needs no memory twice. The file is first read whole, without keeping it: the
    /// targets are written only from a whole file that has all of them, of that type and count.
    /// Throws Error, and writes nothing, for a whole file that does not; when the second reading
    /// fails, it throws Error, and the targets are partly written.
    std::optional<Found> newest(
        const std::vector<TensorTarget>& targets,
        std::vector<std::string>* passed_over = nullptr) const;

private:
    std::string path_;
    std::size_t keep_;
};

/// Reads one file. Throws Error: cannot be read, is no checkpoint, is cut short, is damaged, ...
Checkpoint read_checkpoint(const std::string& path);
/// With targets, as `CheckpointFolder::newest`.
Checkpoint read_checkpoint(const std::string& path, const std::vector<TensorTarget>& targets);

}  // namespace ddprun
