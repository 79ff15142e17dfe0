// SPDX-License-Identifier: Apache-2.0
// How each collective of HostTransport moves its elements.
#include "worker_sdk/src/groups/part_counts.hpp"
#include "worker_sdk/src/groups/reduction.hpp"
#include "worker_sdk/src/transports/host/host_transport.hpp"

#include <string.h>

#include <algorithm>

namespace ddprun::groups {

namespace {

using Kind = Collective::Kind;

/// Smaller buffers go through the stages even when they are in shared memory: that saves one
/// synchronization.
constexpr std::size_t least_direct_bytes = 16 * 1024;
/// From this size on it is faster when each rank reduces a slice, despite one more synchronization.
constexpr std::size_t least_sliced_bytes = 16 * 1024;
constexpr std::size_t cache_line = 64;
/// Posted by a rank without input.
constexpr std::uint64_t nothing_given = Posted::no_offset - 1;

bool is_in_place(Kind kind) {
    return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::broadcast;
}

/// Whether a rank's input has a part for each rank.
bool has_parts(Kind kind) {
    return kind == Kind::reduce_scatter || kind == Kind::scatter || kind == Kind::all_to_all;
}

const std::byte* given(const Collective& step) {
    return static_cast<const std::byte*>(is_in_place(step.kind) ? step.data : step.input);
}

void copy_elements(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes > 0 && to != from) ::memcpy(to, from, bytes);
}

/// The start of the n-th of `parts` slices of `count` elements.
std::size_t slice_start(std::size_t count, std::size_t element_bytes, int n, int parts) {
    const auto line = cache_line / element_bytes;
    const auto lines = (count + line - 1) / line;
    const auto whole = lines * static_cast<std::size_t>(n) / static_cast<std::size_t>(parts);
    return std::min(whole * line, count);
}

}  // namespace

/// Elements `start` to `start + count` of each part.
struct HostTransport::Chunk {
    std::size_t start;
    std::size_t count;
    std::uint64_t turn;
    bool is_direct = false;
};

HostTransport::Chunk HostTransport::chunk_at(const Collective& step, std::size_t start) const {
    const auto parts = has_parts(step.kind) ? static_cast<std::size_t>(segment_->ranks()) : 1;
    const auto most = Segment::stage_bytes / parts / size_of(step.type);
    return {start, std::min(most, step.count - start), turn_};
}

bool HostTransport::gives(const Collective& step) const {
    if (step.kind == Kind::broadcast || step.kind == Kind::scatter) return step.root == rank_;
    return step.kind != Kind::barrier;
}

std::uint64_t HostTransport::offset_given(const Collective& step) const {
    if (!gives(step) || step.count == 0) return nothing_given;
    if (step.bytes() < least_direct_bytes) return Posted::no_offset;
    const auto parts = has_parts(step.kind) ? static_cast<std::size_t>(segment_->ranks()) : 1;
    return segment_->offset_of(given(step), step.bytes() * parts);
}

const Posted& HostTransport::posted_by(int rank) const {
    return segment_->seat(rank).calls[call_count_ % 2];
}

/// Moves parts of different sizes, through the stages alone. A stage has one part for each rank
/// that reads it, or a single part when all read the same.
class HostTransport::PartExchange {
public:
    PartExchange(HostTransport& host, const Collective& call)
        : host_(host),
          call_(call),
          size_(size_of(call.type)),
          sent_starts_(part_starts(call.counts->sent)),
          received_starts_(part_starts(call.counts->received)),
          most_(Segment::stage_bytes / sent_starts_.size() / size_) {}

    /// The number of elements of each part that one turn moves.
    std::size_t most() const { return most_; }

    void deposit(std::size_t start, std::uint64_t turn) const {
        auto* const stage = host_.segment_->stage(host_.rank_, turn);
        const auto* const from = static_cast<const std::byte*>(call_.input);
        for (std::size_t part = 0; part < sent_starts_.size(); ++part) {
            const auto count = left_of(call_.counts->sent[part], start);
            if (count == 0) continue;  // `from` may be a null pointer
            copy_elements(
                stage + part * most_ * size_,
                from + (sent_starts_[part] + start) * size_,
                count * size_);
        }
    }

    void collect(std::size_t start, std::uint64_t turn) const {
        auto* const to = static_cast<std::byte*>(call_.data);
        const auto part = sent_starts_.size() == 1 ? 0 : static_cast<std::size_t>(host_.rank_);
        for (std::size_t from = 0; from < received_starts_.size(); ++from) {
            const auto count = left_of(call_.counts->received[from], start);
            if (count == 0) continue;  // `to` may be a null pointer
            copy_elements(
                to + (received_starts_[from] + start) * size_,
                host_.segment_->stage(static_cast<int>(from), turn) + part * most_ * size_,
                count * size_);
        }
    }

private:
    std::size_t left_of(std::size_t count, std::size_t start) const {
        return count > start ? std::min(count - start, most_) : 0;
    }

    HostTransport& host_;
    const Collective& call_;
    std::size_t size_;
    std::vector<std::size_t> sent_starts_;
    std::vector<std::size_t> received_starts_;
    std::size_t most_;
};

bool HostTransport::exchange_parts(const Collective& call, Wait& wait) {
    if (segment_->has_failed()) return false;
    const PartExchange exchange(*this, call);
    ++call_count_;
    exchange.deposit(0, turn_);
    segment_->seat(rank_).calls[call_count_ % 2] = posted_from(call, Posted::no_offset);
    if (!meet(wait)) return false;
    for (int other = 0; other < segment_->ranks(); ++other)
        if (!compare(call, posted_by(other), other)) return false;
    for (std::size_t start = 0;;) {
        exchange.collect(start, turn_++);
        start += exchange.most();
        if (start >= call.count) return true;
        exchange.deposit(start, turn_);
        if (!meet(wait)) return false;
    }
}

bool HostTransport::perform(const Collective& step, const Collective& whole, Wait& wait) {
    if (step.has_part_counts() && step.counts) return exchange_parts(step, wait);
    // All ranks may have arrived although one of them has failed; then the call has not succeeded.
    if (segment_->has_failed()) return false;
    ++call_count_;
    const auto offset = offset_given(step);
    if (offset == Posted::no_offset) deposit(step, chunk_at(step, 0));
    segment_->seat(rank_).calls[call_count_ % 2] = posted_from(whole, offset);
    if (!meet(wait)) return false;

    bool is_direct = true;
    bool is_mixed = false;
    for (int other = 0; other < segment_->ranks(); ++other) {
        const auto& posted = posted_by(other);
        if (!compare(whole, posted, other)) return false;
        if (posted.offset == Posted::no_offset) is_direct = false;
        if (posted.offset < nothing_given) is_mixed = true;
    }
    if (step.count == 0 || step.kind == Kind::barrier) return true;
    if (is_direct) return perform_direct(step, wait);
    if (is_mixed) {
        if (offset < nothing_given) deposit(step, chunk_at(step, 0));
        if (!meet(wait)) return false;
    }
    return perform_staged(step, wait);
}

bool HostTransport::perform_direct(const Collective& step, Wait& wait) {
    if (step.kind == Kind::all_reduce)
        reduce_in_place(step);
    else
        collect(step, {0, step.count, turn_, true});
    return meet(wait);
}

/// Requires: every rank has deposited its first chunk.
bool HostTransport::perform_staged(const Collective& step, Wait& wait) {
    for (std::size_t start = 0;;) {
        const auto chunk = chunk_at(step, start);
        ++turn_;
        const auto bytes = chunk.count * size_of(step.type);
        const bool is_sliced =
            step.kind == Kind::all_reduce && segment_->ranks() > 2 && bytes >= least_sliced_bytes;
        if (!is_sliced)
            collect(step, chunk);
        else if (!reduce_in_slices(step, chunk, wait))
            return false;
        start += chunk.count;
        if (start == step.count) return true;
        if (gives(step)) deposit(step, chunk_at(step, start));
        if (!meet(wait)) return false;
    }
}

/// Each rank reduces a slice in its own stage, and fetches the other slices.
bool HostTransport::reduce_in_slices(const Collective& step, const Chunk& chunk, Wait& wait) {
    const auto size = size_of(step.type);
    const int ranks = segment_->ranks();
    const auto start_of = [&](int n) { return slice_start(chunk.count, size, n, ranks) * size; };
    auto from = sources(step, chunk, 0);
    for (auto& one : from)
        one += start_of(rank_);
    const auto own_bytes = start_of(rank_ + 1) - start_of(rank_);
    auto* own = segment_->stage(rank_, chunk.turn) + start_of(rank_);
    reduce_all(step.type, step.op, from, {own}, own_bytes / size);
    if (!meet(wait)) return false;
    auto* to = static_cast<std::byte*>(step.data) + chunk.start * size;
    for (int n = 0; n < ranks; ++n)
        copy_elements(
            to + start_of(n),
            segment_->stage(n, chunk.turn) + start_of(n),
            start_of(n + 1) - start_of(n));
    return true;
}

/// The same without stages: each rank reduces a slice from and into the memory of all ranks.
void HostTransport::reduce_in_place(const Collective& step) {
    const auto size = size_of(step.type);
    const auto start = slice_start(step.count, size, rank_, segment_->ranks());
    const auto end = slice_start(step.count, size, rank_ + 1, segment_->ranks());
    std::vector<const std::byte*> from;
    std::vector<std::byte*> to;
    for (int other = 0; other < segment_->ranks(); ++other) {
        to.push_back(segment_->at(posted_by(other).offset) + start * size);
        from.push_back(to.back());
    }
    reduce_all(step.type, step.op, from, to, end - start);
}

/// Copies this rank's part of the chunk from the others.
void HostTransport::collect(const Collective& step, const Chunk& chunk) {
    const auto size = size_of(step.type);
    const auto bytes = chunk.count * size;
    auto* to = static_cast<std::byte*>(step.data) + chunk.start * size;
    switch (step.kind) {
        case Kind::reduce:
            if (step.root != rank_) return;
            [[fallthrough]];
        case Kind::all_reduce:
        case Kind::reduce_scatter:
            return reduce_all(step.type, step.op, sources(step, chunk, rank_), {to}, chunk.count);
        case Kind::broadcast:
            if (step.root != rank_) copy_elements(to, source(step, chunk, step.root, rank_), bytes);
            return;
        case Kind::scatter: return copy_elements(to, source(step, chunk, step.root, rank_), bytes);
        case Kind::gather:
            if (step.root != rank_) return;
            [[fallthrough]];
        case Kind::all_gather:
        case Kind::all_gather_v:
        case Kind::all_to_all_v:
        case Kind::split:
        case Kind::all_to_all:
            for (int from = 0; from < segment_->ranks(); ++from)
                copy_elements(
                    to + static_cast<std::size_t>(from) * step.bytes(),
                    source(step, chunk, from, rank_),
                    bytes);
            return;
        case Kind::barrier:
        case Kind::send:
        case Kind::recv: return;
    }
}

/// Copies this rank's input of the chunk to its stage, one part after the other.
void HostTransport::deposit(const Collective& step, const Chunk& chunk) {
    const auto size = size_of(step.type);
    const auto bytes = chunk.count * size;
    const int parts = has_parts(step.kind) ? segment_->ranks() : 1;
    const auto* from = given(step) + chunk.start * size;
    auto* to = segment_->stage(rank_, chunk.turn);
    for (int part = 0; part < parts; ++part, from += step.bytes(), to += bytes)
        copy_elements(to, from, bytes);
}

/// The data of rank `from` for rank `to`.
std::byte* HostTransport::source(
    const Collective& step, const Chunk& chunk, int from, int to) const {
    const auto part = has_parts(step.kind) ? static_cast<std::size_t>(to) : 0;
    const auto size = size_of(step.type);
    if (!chunk.is_direct) return segment_->stage(from, chunk.turn) + part * chunk.count * size;
    return segment_->at(posted_by(from).offset) + (part * step.count + chunk.start) * size;
}

std::vector<const std::byte*> HostTransport::sources(
    const Collective& step, const Chunk& chunk, int to) const {
    std::vector<const std::byte*> all;
    for (int from = 0; from < segment_->ranks(); ++from)
        all.push_back(source(step, chunk, from, to));
    return all;
}

}  // namespace ddprun::groups
