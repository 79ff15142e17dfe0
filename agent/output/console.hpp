// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace ddprun::agent {

/// Our standard output and error as the writer's thread uses them: which line is unfinished there,
/// and whose it is, so that whole lines stay whole. Blocks; for the writer's thread only.
class Console {
public:
    Console();

    /// Writes everything, whatever the descriptor is: a terminal, a pipe whose reader is gone, one
    /// that was made non-blocking elsewhere. An error ends this piece of output and nothing else.
    void write(int descriptor, std::string_view bytes);
    /// The same for bytes that are not split into lines: they begin on a line of their own when
    /// another line is unfinished, and so does what comes after unfinished ones.
    void pass(int descriptor, std::string_view bytes);

    /// The owner of the unfinished line there; null: there is none. A terminal that is both is one
    /// place.
    const void* line_owner(int descriptor) const { return owners_[place_of(descriptor)]; }
    void set_line_owner(int descriptor, const void* owner) {
        owners_[place_of(descriptor)] = owner;
    }

    /// Grows while any output is accepted. From any thread.
    std::uint64_t written_bytes() const { return written_bytes_; }

private:
    std::size_t place_of(int descriptor) const;

    bool is_one_place_;
    std::array<const void*, 2> owners_{};
    std::atomic<std::uint64_t> written_bytes_{0};
};

}  // namespace ddprun::agent
