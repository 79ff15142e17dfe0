// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/element_type.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace ddprun::groups {

/// What one rank sends, receives and combines in one collective: two streams for each peer, without
/// the connections. Streams are independent of each other and are moved in pieces of any length.
///
/// Bytes that arrive go to their final place, or into a ring of scratch memory for the one
/// reduction, which combines a chunk when all peers' have arrived. A stream may wait for that, or
/// for another stream: then its bytes become ready as those are.
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
    /// How many bytes of something are there; null: all.
    using Progress = const std::size_t*;

    struct Reduction {
        ElementType type = ElementType::uint8;
        Op op = Op::sum;
        /// This rank's elements, and where the result goes, which may be the same.
        const std::byte* own = nullptr;
        std::byte* target = nullptr;
        std::size_t bytes = 0;
        /// A ring of `ring_bytes(bytes, peers)` for each peer, one after the other.
        std::byte* rings = nullptr;
    };

    /// Less with many peers, so that the rings of all are bounded.
    static std::size_t ring_bytes(std::size_t bytes, std::size_t peers);

    Exchange(int rank, int ranks);
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

    // What is planned. A peer's outputs are sent, and its inputs received, in the order in which
    // they are added; one without bytes makes the other side wait nevertheless.
    void output(int peer, const void* from, std::size_t bytes, Progress ready = nullptr);
    Progress input(int peer, void* to, std::size_t bytes);
    /// Within this rank.
    void copy(void* to, const void* from, std::size_t bytes);
    /// From each peer, elements for this rank to combine, in the order of ranks. At most once.
    Progress reduce(const Reduction& reduction);

    // What happens.
    bool sends_to(int peer) const { return stream(peer).has_output; }
    bool receives_from(int peer) const { return stream(peer).has_input; }
    std::size_t bytes_to(int peer) const { return stream(peer).output_bytes; }
    std::size_t bytes_from(int peer) const { return stream(peer).input_bytes; }
    /// What can be sent now, in one piece; nothing: it has to wait, or all is sent.
    Bytes next_output(int peer) const;
    void sent(int peer, std::size_t bytes);
    bool has_sent_all(int peer) const { return stream(peer).outputs.empty(); }
    /// Where the next bytes that arrive go; no room: they have to wait, or all is received.
    Room next_input(int peer) const;
    void received(int peer, std::size_t bytes);
    bool has_received_all(int peer) const { return stream(peer).inputs.empty(); }
    /// Some of what is to be copied, while nothing comes or goes; false: all is copied.
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
    std::vector<std::size_t> arrived_;  // for the reduction, of each peer
    std::size_t combined_ = 0;
};

}  // namespace ddprun::groups
