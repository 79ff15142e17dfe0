// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/wire/schedule.hpp"

#include "worker_sdk/src/groups/part_counts.hpp"

#include <algorithm>
#include <vector>

namespace ddprun::groups {

namespace {

using Kind = Collective::Kind;

/// Up to this many bytes are sent in one step, although that sends more bytes in total: two steps
/// would take longer.
constexpr std::size_t most_direct_bytes = 64 * 1024;
constexpr std::size_t cache_line = 64;

struct Part {
    std::size_t start;
    std::size_t bytes;
};

class Planner {
public:
    Planner(
        const Collective& collective,
        int rank,
        int ranks,
        Scratch<std::byte>& scratch,
        Exchange& exchange)
        : collective_(collective),
          rank_(rank),
          ranks_(ranks),
          scratch_(scratch),
          exchange_(exchange),
          input_(static_cast<const std::byte*>(collective.input)),
          data_(static_cast<std::byte*>(collective.data)) {}

    void plan() {
        // Without elements there is nothing to send, but a mismatch must still be detected.
        if (collective_.count == 0 && !collective_.is_point_to_point()) return barrier();
        const bool is_few =
            collective_.bytes() * static_cast<std::size_t>(ranks_ - 1) <= most_direct_bytes;
        const bool is_direct = is_few || ranks_ == 2;
        switch (collective_.kind) {
            case Kind::all_reduce: return is_few ? all_reduce_directly() : all_reduce();
            case Kind::reduce: return is_direct ? reduce_directly() : reduce();
            case Kind::broadcast: return is_direct ? broadcast_directly() : broadcast();
            case Kind::reduce_scatter: return reduce_scatter();
            case Kind::gather: return gather();
            case Kind::scatter: return scatter();
            case Kind::all_to_all: return all_to_all();
            case Kind::all_gather:
            case Kind::split: return all_gather();
            case Kind::all_gather_v: return collective_.counts ? all_gather_v() : all_gather();
            case Kind::all_to_all_v: return collective_.counts ? all_to_all_v() : all_gather();
            case Kind::barrier: return barrier();
            case Kind::send:
                return exchange_.output(collective_.receiver, input_, collective_.bytes());
            case Kind::recv: exchange_.input(collective_.root, data_, collective_.bytes()); return;
        }
    }

private:
    bool is_root() const { return rank_ == collective_.root; }

    /// Visits the peers, beginning with the next rank, so that not all send to the same one first.
    template <class Call>
    void for_each_peer(Call call) const {
        for (int step = 1; step < ranks_; ++step)
            call((rank_ + step) % ranks_);
    }

    /// The start of part n in a buffer that has one part of `count` elements for each rank.
    std::size_t part_start(int n) const {
        return collective_.bytes() * static_cast<std::size_t>(n);
    }

    /// The n-th of `parts` parts of the elements.
    Part slice(int n, int parts) const {
        const auto size = size_of(collective_.type);
        const auto line = cache_line / size;
        const auto lines = (collective_.count + line - 1) / line;
        const auto start = [&](int part) {
            const auto whole =
                lines * static_cast<std::size_t>(part) / static_cast<std::size_t>(parts);
            return std::min(whole * line, collective_.count) * size;
        };
        return {start(n), start(n + 1) - start(n)};
    }

    /// The part of a rank other than the root, when these ranks share the elements.
    Part slice_of(int rank) const {
        return slice(rank < collective_.root ? rank : rank - 1, ranks_ - 1);
    }

    std::size_t bytes_of_rings(std::size_t bytes) const {
        const auto peers = static_cast<std::size_t>(ranks_ - 1);
        return Exchange::ring_bytes(bytes, peers) * peers;
    }

    Exchange::Progress reduction(
        const std::byte* own, std::byte* target, std::size_t bytes, std::byte* rings) {
        return exchange_.reduce({collective_.type, collective_.op, own, target, bytes, rings});
    }

    void barrier() {
        for_each_peer([&](int peer) {
            exchange_.output(peer, nullptr, 0);
            exchange_.input(peer, nullptr, 0);
        });
    }

    void all_reduce_directly() {
        const auto bytes = collective_.bytes();
        const auto rings = bytes_of_rings(bytes);
        auto* const memory = scratch_.of(rings + bytes);
        // A copy, since the result may be written before all of the input is sent.
        auto* const own = memory + rings;
        std::copy_n(data_, bytes, own);
        for_each_peer([&](int peer) { exchange_.output(peer, own, bytes); });
        reduction(own, data_, bytes, memory);
    }

    /// A combined part from a peer overwrites elements that this rank has already sent to that
    /// peer.
    void all_reduce() {
        const auto mine = slice(rank_, ranks_);
        auto* const own = data_ + mine.start;
        const auto combined =
            reduction(own, own, mine.bytes, scratch_.of(bytes_of_rings(mine.bytes)));
        for_each_peer([&](int peer) {
            const auto theirs = slice(peer, ranks_);
            exchange_.output(peer, data_ + theirs.start, theirs.bytes);
            exchange_.output(peer, own, mine.bytes, combined);
            exchange_.input(peer, data_ + theirs.start, theirs.bytes);
        });
    }

    void reduce_directly() {
        const auto bytes = collective_.bytes();
        if (!is_root()) return exchange_.output(collective_.root, data_, bytes);
        reduction(data_, data_, bytes, scratch_.of(bytes_of_rings(bytes)));
    }

    void reduce() {
        if (is_root())
            return for_each_peer([&](int peer) {
                const auto theirs = slice_of(peer);
                exchange_.output(peer, data_ + theirs.start, theirs.bytes);
                exchange_.input(peer, data_ + theirs.start, theirs.bytes);
            });
        const auto mine = slice_of(rank_);
        const auto rings = bytes_of_rings(mine.bytes);
        auto* const memory = scratch_.of(rings + mine.bytes);
        auto* const result = memory + rings;
        const auto combined = reduction(data_ + mine.start, result, mine.bytes, memory);
        for_each_peer([&](int peer) {
            if (peer == collective_.root) return;
            const auto theirs = slice_of(peer);
            exchange_.output(peer, data_ + theirs.start, theirs.bytes);
        });
        exchange_.output(collective_.root, result, mine.bytes, combined);
    }

    void broadcast_directly() {
        const auto bytes = collective_.bytes();
        if (!is_root()) {
            exchange_.input(collective_.root, data_, bytes);
            return;
        }
        for_each_peer([&](int peer) { exchange_.output(peer, data_, bytes); });
    }

    void broadcast() {
        if (is_root())
            return for_each_peer([&](int peer) {
                const auto theirs = slice_of(peer);
                exchange_.output(peer, data_ + theirs.start, theirs.bytes);
            });
        const auto mine = slice_of(rank_);
        auto* const own = data_ + mine.start;
        const auto arrived = exchange_.input(collective_.root, own, mine.bytes);
        for_each_peer([&](int peer) {
            if (peer == collective_.root) return;
            const auto theirs = slice_of(peer);
            exchange_.output(peer, own, mine.bytes, arrived);
            exchange_.input(peer, data_ + theirs.start, theirs.bytes);
        });
    }

    void reduce_scatter() {
        const auto bytes = collective_.bytes();
        reduction(input_ + part_start(rank_), data_, bytes, scratch_.of(bytes_of_rings(bytes)));
        for_each_peer([&](int peer) { exchange_.output(peer, input_ + part_start(peer), bytes); });
    }

    void gather() {
        const auto bytes = collective_.bytes();
        if (!is_root()) return exchange_.output(collective_.root, input_, bytes);
        exchange_.copy(data_ + part_start(rank_), input_, bytes);
        for_each_peer([&](int peer) { exchange_.input(peer, data_ + part_start(peer), bytes); });
    }

    void scatter() {
        const auto bytes = collective_.bytes();
        if (!is_root()) {
            exchange_.input(collective_.root, data_, bytes);
            return;
        }
        exchange_.copy(data_, input_ + part_start(rank_), bytes);
        for_each_peer([&](int peer) { exchange_.output(peer, input_ + part_start(peer), bytes); });
    }

    void all_to_all() {
        const auto bytes = collective_.bytes();
        exchange_.copy(data_ + part_start(rank_), input_ + part_start(rank_), bytes);
        for_each_peer([&](int peer) {
            exchange_.output(peer, input_ + part_start(peer), bytes);
            exchange_.input(peer, data_ + part_start(peer), bytes);
        });
    }

    void all_gather() {
        const auto bytes = collective_.bytes();
        exchange_.copy(data_ + part_start(rank_), input_, bytes);
        for_each_peer([&](int peer) {
            exchange_.output(peer, input_, bytes);
            exchange_.input(peer, data_ + part_start(peer), bytes);
        });
    }

    std::vector<Part> parts(const std::vector<std::size_t>& counts) const {
        const auto size = size_of(collective_.type);
        const auto starts = part_starts(counts);
        std::vector<Part> parts;
        for (std::size_t n = 0; n < counts.size(); ++n)
            parts.push_back({starts[n] * size, counts[n] * size});
        return parts;
    }

    static const Part& of(const std::vector<Part>& parts, int rank) {
        return parts[static_cast<std::size_t>(rank)];
    }

    void all_gather_v() {
        const auto received = parts(collective_.counts->received);
        const auto& mine = of(received, rank_);
        if (mine.bytes > 0) exchange_.copy(data_ + mine.start, input_, mine.bytes);
        for_each_peer([&](int peer) {
            exchange_.output(peer, input_, mine.bytes);
            exchange_.input(peer, data_ + of(received, peer).start, of(received, peer).bytes);
        });
    }

    void all_to_all_v() {
        const auto sent = parts(collective_.counts->sent);
        const auto received = parts(collective_.counts->received);
        const auto& mine = of(received, rank_);
        if (mine.bytes > 0)
            exchange_.copy(data_ + mine.start, input_ + of(sent, rank_).start, mine.bytes);
        for_each_peer([&](int peer) {
            exchange_.output(peer, input_ + of(sent, peer).start, of(sent, peer).bytes);
            exchange_.input(peer, data_ + of(received, peer).start, of(received, peer).bytes);
        });
    }

    const Collective& collective_;
    int rank_;
    int ranks_;
    Scratch<std::byte>& scratch_;
    Exchange& exchange_;
    const std::byte* input_;
    std::byte* data_;
};

}  // namespace

void plan(
    const Collective& collective,
    int rank,
    int ranks,
    Scratch<std::byte>& scratch,
    Exchange& exchange) {
    Planner(collective, rank, ranks, scratch, exchange).plan();
}

}  // namespace ddprun::groups
