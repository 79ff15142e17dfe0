// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace fake_gpu {

/// One direction between two ranks, in memory that both have mapped: a ring of bytes.
struct Mailbox {
    static constexpr std::size_t capacity = std::size_t{1} << 16;

    std::atomic<std::uint64_t> written;
    std::atomic<std::uint64_t> read;
    std::array<char, capacity> bytes;
};

/// Where the ranks of one communicator meet: a file of the communicator's name, which the first
/// that is there makes and the last that comes takes away.
class MeetingPlace {
public:
    MeetingPlace(const std::string& name, int rank, int world_size);
    MeetingPlace(const MeetingPlace&) = delete;
    MeetingPlace& operator=(const MeetingPlace&) = delete;
    ~MeetingPlace();

    bool is_complete() const;
    /// A rank that has said farewell is told when all have.
    void leave();
    bool have_all_left() const;
    /// A rank that gives up breaks its connections.
    void abort();
    bool is_aborted() const;
    /// A process of a rank that joined has ended.
    bool is_anybody_dead() const;
    /// Moves what can be moved; true when all was. `done` counts bytes.
    bool send(int peer, const char* data, std::size_t bytes, std::size_t& done);
    bool recv(int peer, char* data, std::size_t bytes, std::size_t& done);

private:
    struct Shared {
        std::atomic<int> joined;
        std::atomic<int> left;
        std::atomic<bool> aborted;
        std::array<std::atomic<int>, 64> pids;
    };

    Shared& shared() const { return *static_cast<Shared*>(memory_); }
    Mailbox& box(int from, int to) const;

    int rank_;
    int world_size_;
    std::size_t bytes_ = 0;
    void* memory_ = nullptr;
};

}  // namespace fake_gpu
