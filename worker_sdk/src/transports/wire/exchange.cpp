// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/wire/exchange.hpp"

#include "worker_sdk/src/groups/elementwise.hpp"
#include "worker_sdk/src/groups/reduction.hpp"

#include <algorithm>

namespace ddprun::groups {

namespace {

/// A chunk is combined as soon as it has arrived: it is still in the cache, and the result can be
/// sent soon.
constexpr std::size_t chunk_bytes = 64 * 1024;
/// The longest buffer for one peer's data while data of another peer has not arrived.
constexpr std::size_t longest_ring = 8 * chunk_bytes;
/// The limit for all peers together, unless that is less than a chunk from each.
constexpr std::size_t most_of_all_rings = 64 << 20;
/// Copying this takes about ten microseconds.
constexpr std::size_t most_copied_at_once = 128 * 1024;

}  // namespace

std::size_t Exchange::ring_bytes(std::size_t bytes, std::size_t peers) {
    constexpr std::size_t cache_line = 64;
    const auto share = most_of_all_rings / std::max<std::size_t>(peers, 1);
    const auto longest = std::clamp(share / chunk_bytes * chunk_bytes, chunk_bytes, longest_ring);
    if (bytes >= longest) return longest;
    return (bytes + cache_line - 1) / cache_line * cache_line;
}

Exchange::Exchange(int rank, int ranks) : rank_(rank), streams_(static_cast<std::size_t>(ranks)) {}

void Exchange::output(int peer, const void* from, std::size_t bytes, Progress ready) {
    auto& to = stream(peer);
    to.has_output = true;
    to.output_bytes += bytes;
    if (bytes > 0) to.outputs.push_back({static_cast<const std::byte*>(from), bytes, ready});
}

Exchange::Progress Exchange::input(int peer, void* to, std::size_t bytes) {
    auto& from = stream(peer);
    from.has_input = true;
    from.input_bytes += bytes;
    auto& got = counts_.emplace_back(0);
    if (bytes > 0) from.inputs.push_back({static_cast<std::byte*>(to), bytes, &got, false});
    return &got;
}

void Exchange::copy(void* to, const void* from, std::size_t bytes) {
    if (bytes == 0 || to == from) return;
    copies_.push_back({static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes});
}

bool Exchange::copy_some() {
    if (copies_.empty()) return false;
    auto& next = copies_.front();
    const auto bytes = std::min(next.bytes, most_copied_at_once);
    std::copy_n(next.from, bytes, next.to);
    next.to += bytes;
    next.from += bytes;
    next.bytes -= bytes;
    if (next.bytes == 0) copies_.pop_front();
    return true;
}

Exchange::Progress Exchange::reduce(const Reduction& reduction) {
    reduction_ = reduction;
    ring_bytes_ = ring_bytes(reduction.bytes, streams_.size() - 1);
    arrived_.assign(streams_.size(), 0);
    auto* ring = reduction.rings;
    for (std::size_t peer = 0; peer < streams_.size(); ++peer) {
        if (peer == static_cast<std::size_t>(rank_)) continue;
        auto& from = streams_[peer];
        from.has_input = true;
        from.input_bytes += reduction.bytes;
        if (reduction.bytes > 0)
            from.inputs.push_back({ring, reduction.bytes, &arrived_[peer], true});
        ring += ring_bytes_;
    }
    return &combined_;
}

Exchange::Bytes Exchange::next_output(int peer) const {
    const auto& outputs = stream(peer).outputs;
    if (outputs.empty()) return {};
    const auto& next = outputs.front();
    const auto ready = next.ready ? std::min(*next.ready, next.bytes) : next.bytes;
    return {next.from + next.sent, ready - next.sent};
}

void Exchange::sent(int peer, std::size_t bytes) {
    auto& outputs = stream(peer).outputs;
    outputs.front().sent += bytes;
    if (outputs.front().sent == outputs.front().bytes) outputs.pop_front();
}

Exchange::Room Exchange::next_input(int peer) const {
    const auto& inputs = stream(peer).inputs;
    if (inputs.empty()) return {};
    const auto& next = inputs.front();
    const auto got = *next.got;
    if (!next.is_ring) return {next.to + got, next.bytes - got};
    const auto place = got % ring_bytes_;
    const auto free = std::min(next.bytes, combined_ + ring_bytes_) - got;
    return {next.to + place, std::min(free, ring_bytes_ - place)};
}

void Exchange::received(int peer, std::size_t bytes) {
    auto& inputs = stream(peer).inputs;
    const auto next = inputs.front();
    *next.got += bytes;
    if (*next.got == next.bytes) inputs.pop_front();
    if (next.is_ring) combine();
}

/// Combines all chunks that have arrived from every peer.
void Exchange::combine() {
    const auto& reduction = *reduction_;
    auto arrived = reduction.bytes;
    for (std::size_t peer = 0; peer < arrived_.size(); ++peer)
        if (peer != static_cast<std::size_t>(rank_)) arrived = std::min(arrived, arrived_[peer]);
    std::vector<const std::byte*> sources(streams_.size());
    while (combined_ < arrived) {
        const auto bytes = std::min(chunk_bytes, reduction.bytes - combined_);
        if (arrived - combined_ < bytes) return;
        const auto* ring = reduction.rings + combined_ % ring_bytes_;
        for (std::size_t rank = 0; rank < sources.size(); ++rank) {
            const bool is_own = rank == static_cast<std::size_t>(rank_);
            sources[rank] = is_own ? reduction.own + combined_ : ring;
            if (!is_own) ring += ring_bytes_;
        }
        reduce_all(
            reduction.type,
            reduction.op,
            sources,
            {reduction.target + combined_},
            bytes / size_of(reduction.type));
        combined_ += bytes;
    }
}

}  // namespace ddprun::groups
