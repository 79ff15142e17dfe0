// SPDX-License-Identifier: Apache-2.0
#include "ddprun/checkpoint.hpp"
#include "ddprun/error.hpp"
#include "worker_sdk/src/checkpoint/file.hpp"
#include "worker_sdk/src/checkpoint/format.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

namespace ddprun {
namespace {

using checkpoint::Position;

struct Listing {
    std::vector<Position> checkpoints;  // newest first
    std::vector<std::string> unfinished;
};

/// A folder that does not exist is an empty one.
Listing list(const std::string& folder) {
    Listing listing;
    std::error_code error;
    std::filesystem::directory_iterator entries{folder, error};
    if (error == std::errc::no_such_file_or_directory) return listing;
    for (; !error && entries != std::filesystem::directory_iterator{}; entries.increment(error)) {
        const auto name = entries->path().filename().string();
        if (name.starts_with(checkpoint::unfinished_prefix)) listing.unfinished.push_back(name);
        // "checkpoint-1-2.ddp" is a name of another hand: the file is looked for by our spelling.
        const auto position = checkpoint::position_in(name);
        if (position && checkpoint::file_name(*position) == name)
            listing.checkpoints.push_back(*position);
    }
    if (error) throw Error("cannot read the checkpoint folder " + folder + ": " + error.message());
    std::sort(listing.checkpoints.begin(), listing.checkpoints.end(), std::greater<>{});
    return listing;
}

std::string in_folder(const std::string& folder, const std::string& name) {
    return folder.ends_with('/') ? folder + name : folder + "/" + name;
}

Result<Checkpoint> read(const std::string& path) {
    const auto bytes = checkpoint::read_file(path);
    if (!bytes) return bytes.error();
    auto decoded = checkpoint::decode(*bytes);
    if (decoded) return decoded;
    const auto& failure = decoded.error();
    return Failure{failure.code, failure.context.empty() ? path : path + ": " + failure.context};
}

/// Removes what is of no further use. That it cannot be removed is no reason to end a training run.
void prune(const std::string& folder, const Position& written, std::size_t keep) {
    const auto listing = list(folder);
    std::error_code ignored;
    for (const auto& name : listing.unfinished)
        std::filesystem::remove(in_folder(folder, name), ignored);

    // What claims to be newer than the one just written is not ours to judge: it neither counts
    // nor goes.
    std::size_t kept = 0;
    for (const auto& position : listing.checkpoints)
        if (position <= written && ++kept > keep)
            std::filesystem::remove(in_folder(folder, checkpoint::file_name(position)), ignored);
}

}  // namespace

CheckpointFolder::CheckpointFolder(std::string path, std::size_t keep)
    : path_(std::move(path)),
      keep_(std::max<std::size_t>(keep, 1)) {
    if (path_.empty()) throw UsageError("the path of the checkpoint folder is empty");
}

std::string CheckpointFolder::save(const Checkpoint& checkpoint) const {
    const auto bytes = checkpoint::encode(checkpoint);
    if (!bytes) throw UsageError("the checkpoint cannot be written: " + bytes.error().context);

    std::error_code error;
    std::filesystem::create_directories(path_, error);
    if (error) throw Error("cannot make the checkpoint folder " + path_ + ": " + error.message());

    const Position position{checkpoint.round, checkpoint.step};
    auto path = in_folder(path_, checkpoint::file_name(position));
    if (const auto written = checkpoint::write_file(path, *bytes); !written)
        throw Error("the checkpoint was not saved: " + written.error().describe());
    prune(path_, position, keep_);
    return path;
}

std::optional<CheckpointFolder::Found> CheckpointFolder::newest(
    std::vector<std::string>* passed_over) const {
    for (const auto& position : list(path_).checkpoints) {
        const auto path = in_folder(path_, checkpoint::file_name(position));
        auto found = read(path);
        if (found && Position{found->round, found->step} == position)
            return Found{std::move(*found), path};
        if (passed_over != nullptr)
            passed_over->push_back(
                found ? path + ": its name is not what it says inside" : found.error().describe());
    }
    return std::nullopt;
}

Checkpoint read_checkpoint(const std::string& path) {
    auto found = read(path);
    if (!found) throw Error(found.error().describe());
    return std::move(*found);
}

}  // namespace ddprun
