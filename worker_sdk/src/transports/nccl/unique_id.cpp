// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/unique_id.hpp"

#include <string.h>

#include <cstdint>

namespace ddprun::nccl {

namespace {

using groups::GroupError;

constexpr int ranks_per_root = 128;
constexpr std::size_t number_bytes = 4;
constexpr std::size_t announcement_bytes = sizeof(abi::UniqueId) + 2 * number_bytes;

std::string written(int number) {
    const auto value = static_cast<std::uint32_t>(number);
    std::string bytes;
    for (const int shift : {24, 16, 8, 0})
        bytes += static_cast<char>(value >> shift & 0xff);
    return bytes;
}

int number_at(const std::string& bytes, std::size_t place) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < number_bytes; ++i)
        value = value << 8 | static_cast<unsigned char>(bytes[place + i]);
    return static_cast<int>(value);
}

}  // namespace

std::string version_text(int version) {
    return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
}

std::string written(const Announcement& announcement) {
    return std::string(announcement.id.bytes, sizeof announcement.id.bytes) +
           written(announcement.version) + written(announcement.world_size);
}

std::variant<Announcement, GroupError> read_announcement(const std::string& bytes) {
    if (bytes.size() != announcement_bytes)
        return GroupError{
            GroupError::Kind::other,
            "a peer announced an NCCL communicator in " + std::to_string(bytes.size()) +
                " bytes, " + std::to_string(announcement_bytes) +
                " are expected: is its ddprun of another version?"};
    Announcement announcement;
    ::memcpy(announcement.id.bytes, bytes.data(), sizeof announcement.id.bytes);
    announcement.version = number_at(bytes, sizeof announcement.id.bytes);
    announcement.world_size = number_at(bytes, sizeof announcement.id.bytes + number_bytes);
    return announcement;
}

groups::Outcome compare(
    const Announcement& theirs, int root, int own_version, int own_world_size, int own_rank) {
    const auto side = [](int rank, const std::string& what) {
        return groups::text_of({rank}) + " has " + what;
    };
    if (theirs.version != own_version)
        return groups::mismatch_between(
            side(own_rank, "NCCL " + version_text(own_version)),
            side(root, "NCCL " + version_text(theirs.version)));
    if (theirs.world_size != own_world_size)
        return groups::mismatch_between(
            side(own_rank, "a world of " + std::to_string(own_world_size)),
            side(root, "a world of " + std::to_string(theirs.world_size)));
    return {};
}

int root_count(int world_size, int version) {
    if (version < abi::first_scalable_version) return 1;
    return (world_size + ranks_per_root - 1) / ranks_per_root;
}

int root_rank(int index, int root_count, int world_size) {
    return static_cast<int>(static_cast<std::int64_t>(index) * world_size / root_count);
}

std::string announcement_key(int index) {
    return "uid/" + std::to_string(index);
}

}  // namespace ddprun::nccl
