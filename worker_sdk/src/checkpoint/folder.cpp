// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/checkpoint/folder.hpp"

#include "ddprun/checkpoint.hpp"
#include "ddprun/error.hpp"
#include "worker_sdk/src/checkpoint/format.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <span>
#include <system_error>
#include <utility>

namespace ddprun {
namespace checkpoint {
namespace {

std::string in_folder(const std::string& folder, const std::string& name) {
    return folder.ends_with('/') ? folder + name : folder + "/" + name;
}

/// The failure, with the path in front of its context.
Failure at(const std::string& path, const Failure& failure) {
    return {failure.code, failure.context.empty() ? path : path + ": " + failure.context};
}

Result<Checkpoint> decode_file(const std::string& path, std::span<const std::byte> bytes) {
    auto decoded = decode(bytes);
    if (!decoded) return at(path, decoded.error());
    return decoded;
}

Result<Checkpoint> read(const std::string& path) {
    const auto bytes = read_file(path);
    if (!bytes) return bytes.error();
    return decode_file(path, *bytes);
}

Failure named_wrongly(const std::string& path) {
    return {Fault::misnamed, path};
}

}  // namespace

Listing list(const std::string& folder) {
    Listing listing;
    std::error_code error;
    std::filesystem::directory_iterator entries{folder, error};
    if (error == std::errc::no_such_file_or_directory) return listing;
    for (; !error && entries != std::filesystem::directory_iterator{}; entries.increment(error)) {
        const auto name = entries->path().filename().string();
        if (name.starts_with(unfinished_prefix)) listing.unfinished.push_back(name);
        // "checkpoint-1-2.ddp" was not named by this library: the file is looked for under the
        // canonical name.
        const auto position = position_in(name);
        if (position && file_name(*position) == name) listing.checkpoints.push_back(*position);
    }
    if (error) throw Error("cannot read the checkpoint folder " + folder + ": " + error.message());
    std::sort(listing.checkpoints.begin(), listing.checkpoints.end(), std::greater<>{});
    return listing;
}

std::string path_in(const std::string& folder, Position position) {
    return in_folder(folder, file_name(position));
}

Result<std::vector<std::byte>> read_whole(const std::string& folder, Position position) {
    const auto path = path_in(folder, position);
    auto bytes = read_file(path);
    if (!bytes) return bytes;
    const auto decoded = decode_file(path, *bytes);
    if (!decoded) return decoded.error();
    if (Position{decoded->round, decoded->step} != position) return named_wrongly(path);
    return bytes;
}

}  // namespace checkpoint

namespace {

using checkpoint::Position;

/// Removes old files. A failure to remove one does not end the training run.
void prune(const std::string& folder, const Position& written, std::size_t keep) {
    const auto listing = checkpoint::list(folder);
    std::error_code ignored;
    for (const auto& name : listing.unfinished)
        std::filesystem::remove(checkpoint::in_folder(folder, name), ignored);

    // A file with a newer name than the one just written is left alone: it is neither counted nor
    // removed.
    std::size_t kept = 0;
    for (const auto& position : listing.checkpoints)
        if (position <= written && ++kept > keep)
            std::filesystem::remove(checkpoint::path_in(folder, position), ignored);
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
    auto path = checkpoint::path_in(path_, position);
    if (const auto written = checkpoint::write_file(path, *bytes); !written)
        throw Error("the checkpoint was not saved: " + written.error().describe());
    prune(path_, position, keep_);
    return path;
}

std::optional<CheckpointFolder::Found> CheckpointFolder::newest(
    std::vector<std::string>* passed_over) const {
    constexpr int most_looks = 10;
    for (int looks = 1;; ++looks) {
        std::optional<Found> whole;
        std::vector<std::string> unusable;
        bool is_pruned = false;
        for (const auto& position : checkpoint::list(path_).checkpoints) {
            auto path = checkpoint::path_in(path_, position);
            auto found = checkpoint::read(path);
            if (found && Position{found->round, found->step} != position)
                found = checkpoint::named_wrongly(path);
            if (found) whole = Found{std::move(*found), std::move(path)};
            // Removed since it was listed, by a concurrent run, which has newer ones.
            else if (found.error().code == system_code(ENOENT) && looks < most_looks)
                is_pruned = true;
            else
                unusable.push_back(found.error().describe());
            if (whole || is_pruned) break;
        }
        if (is_pruned) continue;
        if (passed_over != nullptr)
            passed_over->insert(passed_over->end(), unusable.begin(), unusable.end());
        return whole;
    }
}

Checkpoint read_checkpoint(const std::string& path) {
    auto found = checkpoint::read(path);
    if (!found) throw Error(found.error().describe());
    return std::move(*found);
}

}  // namespace ddprun
