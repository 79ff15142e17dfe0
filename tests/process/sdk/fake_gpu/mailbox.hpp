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

/// The rendezvous of the ranks of one communicator: a file of the communicator's name. The first
/// rank creates it, the last one to join removes it.
class Rendezvous {
public:
    Rendezvous(const std::string& name, int rank, int world_size);
    Rendezvous(const Rendezvous&) = delete;
    Rendezvous& operator=(const Rendezvous&) = delete;
    ~Rendezvous();

    bool is_complete() const;
    /// For finalize: `have_all_left` is true when every rank has called it.
    void leave();
    bool have_all_left() const;
    /// Breaks this rank's connections.
    void abort();
    bool is_aborted() const;
    /// A process of a rank that joined has ended.
    bool has_dead_rank() const;
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
