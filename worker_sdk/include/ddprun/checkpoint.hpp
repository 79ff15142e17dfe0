// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/world.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// Numbers with a name. The product of the shape is their count; without a shape it is one number.
struct Tensor {
    using Values = std::variant<std::vector<float>, std::vector<double>, std::vector<std::int64_t>>;

    std::string name;
    std::vector<std::uint64_t> shape;
    Values values;
};

/// What a training run needs to go on: tensors by name and short texts by key. A plain value.
///
/// Of two checkpoints the one with the larger (round, step) is the newer. So what a worker of an
/// old round writes late never hides what its successors wrote. Rounds are counted anew in each
/// incarnation of a job: take the round to write from `CheckpointRound`.
struct Checkpoint {
    std::uint64_t round = 0;
    std::uint64_t step = 0;
    std::map<std::string, std::string> texts;
    std::vector<Tensor> tensors;

    /// Appends. Whether names differ and shapes fit is seen when the checkpoint is written.
    void add(std::string name, std::vector<std::uint64_t> shape, Tensor::Values values);
    /// A list of floats, copied; one number.
    void add(std::string name, const float* values, std::size_t count);
    void add(std::string name, std::int64_t number);
    void add(std::string name, double number);

    /// Null when there is none of that name.
    const Tensor* find(const std::string& name) const;

    /// These throw Error, with the name, when it is missing, of another type or another count.
    void copy_to(const std::string& name, float* values, std::size_t count) const;
    std::int64_t integer(const std::string& name) const;
    double real(const std::string& name) const;
    const std::string& text(const std::string& key) const;
};

/// Which round to write into checkpoints. A job that is started again counts its rounds from 0;
/// here they go on where the resumed checkpoint was, so that the number grows over the whole life
/// of a folder and what is written last is the newest.
class CheckpointRound {
public:
    /// `resumed` is what this run goes on from, or null. Only the rank that writes needs one.
    CheckpointRound(const World& world, const Checkpoint* resumed);

    std::uint64_t number() const { return base_ + round_; }

    /// Sets the round, and the texts from which the next run sees what it is counted from.
    void write_to(Checkpoint& checkpoint) const;

private:
    std::string incarnation_;
    std::uint64_t base_ = 0;
    std::uint64_t round_ = 0;
};

/// A folder of checkpoints, of one run and with one writer at a time (rank 0).
///
/// A checkpoint is there whole or not at all: it is written beside its place, flushed to the disk,
/// renamed, and the folder flushed. Should a file be damaged nevertheless, its checksum tells, and
/// the one before it is taken. Makes no collective call, so that saving can take its time.
class CheckpointFolder {
public:
    /// `keep` newest are kept, the one just written always; at least 1. Nothing is touched yet.
    explicit CheckpointFolder(std::string path, std::size_t keep = 3);

    const std::string& path() const { return path_; }

    /// Makes the folder when there is none, writes, then removes what is older than `keep`
    /// checkpoints and what earlier writers left unfinished. Returns the file's path. Throws Error
    /// with path and reason; the earlier checkpoints are then still there.
    std::string save(const Checkpoint& checkpoint) const;

    struct Found {
        Checkpoint checkpoint;
        std::string path;
    };

    /// The newest one that is whole; none when there is none. When `passed_over` is given, it
    /// gets a line for each newer file that was not whole, with the reason. Throws Error when the
    /// folder itself cannot be read.
    std::optional<Found> newest(std::vector<std::string>* passed_over = nullptr) const;

private:
    std::string path_;
    std::size_t keep_;
};

/// One file. Throws Error: cannot be read, is no checkpoint, is cut short, is damaged, ...
Checkpoint read_checkpoint(const std::string& path);

}  // namespace ddprun
