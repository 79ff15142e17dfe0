// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/element_type.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace ddprun::groups {

/// What one rank sends, receives and combines in one collective: two streams for each peer. The
/// connections are elsewhere. Streams are independent of each other and are moved in pieces of any
/// length.
///
/// Bytes that arrive go to their final place, or, for the reduction, into a ring of scratch memory.
/// The reduction combines a chunk when it has arrived from all peers. A stream may depend on the
/// reduction or on another stream: its bytes become ready as theirs do.
class Exchange {
public:
    struct Bytes {
        const std::byte* data = nullptr;
        std::size_t size = 0;
    };
    struct Room {
        std::byte* data = nullptr;
        std::size_t size = 0;
    };
    /// Points to the number of bytes that are ready; null: all are.
    using Progress = const std::size_t*;

    struct Reduction {
        ElementType type = ElementType::uint8;
        Op op = Op::sum;
        /// This rank's elements, and the target of the result, which may be the same memory.
        const std::byte* own = nullptr;
        std::byte* target = nullptr;
        std::size_t bytes = 0;
        /// A ring of `ring_bytes(bytes, peers)` for each peer, one after the other.
        std::byte* rings = nullptr;
    };

    /// Shorter with many peers, so that all rings together are bounded.
    static std::size_t ring_bytes(std::size_t bytes, std::size_t peers);

    Exchange(int rank, int ranks);
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

    // Planning. A peer's outputs are sent, and its inputs received, in the order in which they are
    // added. An output without bytes still makes the peer wait for it.
    void output(int peer, const void* from, std::size_t bytes, Progress ready = nullptr);
    Progress input(int peer, void* to, std::size_t bytes);
    /// Copies within this rank.
    void copy(void* to, const void* from, std::size_t bytes);
    /// Receives elements from each peer and combines them with this rank's in the order of ranks.
    /// At most once per exchange.
    Progress reduce(const Reduction& reduction);

    // Moving the bytes.
    bool sends_to(int peer) const { return stream(peer).has_output; }
    bool receives_from(int peer) const { return stream(peer).has_input; }
    std::size_t bytes_to(int peer) const { return stream(peer).output_bytes; }
    std::size_t bytes_from(int peer) const { return stream(peer).input_bytes; }
    /// The bytes that can be sent now, in one piece. Empty when the stream has to wait or all is
    /// sent.
    Bytes next_output(int peer) const;
    void sent(int peer, std::size_t bytes);
    bool has_sent_all(int peer) const { return stream(peer).outputs.empty(); }
    /// The place for the next bytes that arrive. Empty when the stream has to wait or all is
    /// received.
    Room next_input(int peer) const;
    void received(int peer, std::size_t bytes);
    bool has_received_all(int peer) const { return stream(peer).inputs.empty(); }
    /// Performs some of the planned copies, while no bytes can be moved. Returns false when all are
    /// done.
    bool copy_some();

private:
    struct Output {
        const std::byte* from;
        std::size_t bytes;
        Progress ready;
        std::size_t sent = 0;
    };
    struct Input {
        std::byte* to;
        std::size_t bytes;
        std::size_t* got;
        bool is_ring;
    };
    struct Copy {
        std::byte* to;
        const std::byte* from;
        std::size_t bytes;
    };
    struct Stream {
        std::deque<Output> outputs;
        std::deque<Input> inputs;
        std::size_t output_bytes = 0;
        std::size_t input_bytes = 0;
        bool has_output = false;
        bool has_input = false;
    };

    Stream& stream(int peer) { return streams_[static_cast<std::size_t>(peer)]; }
    const Stream& stream(int peer) const { return streams_[static_cast<std::size_t>(peer)]; }
    void combine();

    int rank_;
    std::vector<Stream> streams_;
    std::deque<Copy> copies_;
    std::deque<std::size_t> counts_;  // addresses stay valid
    std::optional<Reduction> reduction_;
    std::size_t ring_bytes_ = 0;
    std::vector<std::size_t> arrived_;  // by peer: bytes received for the reduction
    std::size_t combined_ = 0;
};

}  // namespace ddprun::groups
