// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/collective.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tuple>

namespace ddprun::groups {

namespace {

using Kind = Collective::Kind;

GroupError misuse(const Collective& collective, const std::string& what) {
    return {GroupError::Kind::usage, describe(collective) + ": " + what};
}

std::string ranks_below(int world_size) {
    return "there are ranks 0 to " + std::to_string(world_size - 1);
}

const char* name_of(Kind kind) {
    switch (kind) {
        case Kind::all_reduce: return "all_reduce";
        case Kind::reduce: return "reduce";
        case Kind::broadcast: return "broadcast";
        case Kind::all_gather: return "all_gather";
        case Kind::reduce_scatter: return "reduce_scatter";
        case Kind::gather: return "gather";
        case Kind::scatter: return "scatter";
        case Kind::all_to_all: return "all_to_all";
        case Kind::all_gather_v: return "all_gather_v";
        case Kind::all_to_all_v: return "all_to_all_v";
        case Kind::barrier: return "barrier";
        case Kind::split: return "split";
        case Kind::send: return "send";
        case Kind::recv: return "recv";
    }
    return "unknown call";
}

/// "(sum)", "to rank 1", ...
std::string details(const Collective& collective) {
    std::string text;
    if (collective.is_reduction()) text += std::string{" ("} + groups::name_of(collective.op) + ")";
    const auto root = "rank " + std::to_string(collective.root);
    if (collective.kind == Kind::broadcast || collective.kind == Kind::scatter)
        text += " from " + root;
    if (collective.kind == Kind::reduce || collective.kind == Kind::gather) text += " to " + root;
    return text;
}

bool has_root(Kind kind) {
    return kind == Kind::reduce || kind == Kind::broadcast || kind == Kind::gather ||
           kind == Kind::scatter || kind == Kind::send || kind == Kind::recv;
}

/// Everything that ranks must agree on; a field that a kind does not use is 0. Types and counts of
/// parts are compared in a step of their own (part_counts.hpp).
auto agreed(const Collective& collective) {
    const bool is_message = collective.is_point_to_point();
    const bool is_barrier = collective.kind == Kind::barrier || collective.has_part_counts();
    return std::tuple{
        static_cast<std::uint64_t>(is_message ? Kind::send : collective.kind),
        is_barrier ? 0 : static_cast<std::uint64_t>(collective.type),
        collective.is_reduction() ? static_cast<std::uint64_t>(collective.op) : 0,
        has_root(collective.kind) ? static_cast<std::uint64_t>(collective.root) : 0,
        is_message ? static_cast<std::uint64_t>(collective.receiver) : 0,
        is_barrier ? 0 : static_cast<std::uint64_t>(collective.count),
        collective.sequence};
}

/// The bytes of one of this rank's buffers; 0 bytes when the buffer is null.
struct Span {
    std::uintptr_t begin;
    std::size_t bytes;

    bool overlaps(const Span& other) const {
        return bytes > 0 && other.bytes > 0 && begin < other.begin + other.bytes &&
               other.begin < begin + bytes;
    }
};

/// Whether input and output share memory in a way that loses input. A rank's own part may be in
/// place.
bool overlaps(const Collective& collective, int rank, int world_size) {
    const auto whole = collective.bytes() * static_cast<std::size_t>(world_size);
    auto own = collective.bytes() * static_cast<std::size_t>(rank);
    const auto span = [](const void* buffer, std::size_t bytes) {
        return Span{reinterpret_cast<std::uintptr_t>(buffer), buffer ? bytes : 0};
    };
    const auto is_used = collective.root == rank;
    const auto total = [&](const std::vector<std::size_t>& counts) {
        return std::accumulate(counts.begin(), counts.end(), std::size_t{}) *
               size_of(collective.type);
    };
    Span one{};
    Span all{};
    switch (collective.kind) {
        case Kind::all_gather:
            one = span(collective.input, collective.bytes());
            all = span(collective.data, whole);
            break;
        case Kind::gather:
            one = span(collective.input, collective.bytes());
            all = span(collective.data, is_used ? whole : 0);
            break;
        case Kind::reduce_scatter:
            one = span(collective.data, collective.bytes());
            all = span(collective.input, whole);
            break;
        case Kind::scatter:
            one = span(collective.data, collective.bytes());
            all = span(collective.input, is_used ? whole : 0);
            break;
        case Kind::all_to_all:
            return span(collective.input, whole).overlaps(span(collective.data, whole));
        case Kind::all_gather_v: {
            const auto& counts = collective.counts->received;
            const auto before = counts.begin() + rank;
            own = std::accumulate(counts.begin(), before, std::size_t{}) * size_of(collective.type);
            one = span(collective.input, total(collective.counts->sent));
            all = span(collective.data, total(counts));
            break;
        }
        case Kind::all_to_all_v:
            return span(collective.input, total(collective.counts->sent))
                .overlaps(span(collective.data, total(collective.counts->received)));
        case Kind::all_reduce:
            return collective.input != collective.data &&
                   span(collective.input, collective.bytes())
                       .overlaps(span(collective.data, collective.bytes()));
        case Kind::reduce:
        case Kind::broadcast:
        case Kind::barrier:
        case Kind::split:
        case Kind::send:
        case Kind::recv: return false;
    }
    return one.overlaps(all) && one.begin != all.begin + own;
}

bool lacks_buffer(const Collective& collective, int rank) {
    const bool is_root = collective.root == rank;
    switch (collective.kind) {
        case Kind::all_reduce:
        case Kind::reduce:
        case Kind::broadcast:
        case Kind::recv: return !collective.data;
        case Kind::all_gather:
        case Kind::split:
        case Kind::reduce_scatter:
        case Kind::all_to_all: return !collective.data || !collective.input;
        case Kind::gather: return !collective.input || (is_root && !collective.data);
        case Kind::scatter: return !collective.data || (is_root && !collective.input);
        case Kind::send: return !collective.input;
        case Kind::all_gather_v:
        case Kind::all_to_all_v:
        case Kind::barrier: return false;
    }
    return false;
}

/// Checks the counts of parts, and the buffers, which may be null when no part has elements.
Outcome check_parts(const Collective& collective, int rank, int world_size) {
    const auto& counts = *collective.counts;
    const auto ranks = static_cast<std::size_t>(world_size);
    const bool is_gathered = collective.kind == Kind::all_gather_v;
    if (counts.received.size() != ranks || counts.sent.size() != (is_gathered ? 1 : ranks))
        return misuse(collective, "it takes one count for each rank");
    if (is_gathered && counts.sent.front() != counts.received[static_cast<std::size_t>(rank)])
        return misuse(collective, "this rank's count is not the one in the list");
    const auto most = std::numeric_limits<std::size_t>::max() / size_of(collective.type) / ranks;
    for (const auto* const list : {&counts.sent, &counts.received}) {
        const auto largest = *std::max_element(list->begin(), list->end());
        const auto* const buffer = list == &counts.sent ? collective.input : collective.data;
        if (largest > most) return misuse(collective, "more than memory can hold");
        if (largest > 0 && !buffer) return misuse(collective, "the buffer is a null pointer");
    }
    return {};
}

}  // namespace

std::string describe(const Collective& collective) {
    const auto elements = std::to_string(collective.count) + " " + groups::name_of(collective.type);
    const auto number = std::to_string(collective.sequence);
    if (collective.is_point_to_point())
        return "message " + number + " from rank " + std::to_string(collective.root) + " to rank " +
               std::to_string(collective.receiver) + ": " + elements;
    const auto text = "call " + number + ": " + name_of(collective.kind) + details(collective);
    const bool is_plain = collective.kind == Kind::barrier || collective.kind == Kind::split ||
                          collective.has_part_counts();
    return is_plain ? text : text + " of " + elements;
}

bool is_same_call(const Collective& a, const Collective& b) {
    return agreed(a) == agreed(b);
}

std::uint32_t tag_of(const Collective& collective) {
    std::uint64_t hash = 0xcbf29ce484222325;
    const auto mix = [&hash](std::uint64_t word) {
        hash = (hash ^ word) * 0x9e3779b97f4a7c15;
        hash ^= hash >> 29;
    };
    std::apply([&](auto... words) { (mix(words), ...); }, agreed(collective));
    return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

Outcome check(const Collective& collective, int rank, int world_size) {
    if (collective.kind == Kind::barrier) return {};
    if (collective.has_part_counts())
        if (auto wrong = check_parts(collective, rank, world_size)) return wrong;
    const auto most = std::numeric_limits<std::size_t>::max() /
                      (size_of(collective.type) * static_cast<std::size_t>(world_size));
    if (collective.count > most) return misuse(collective, "more than memory can hold");
    if (collective.count > 0 && lacks_buffer(collective, rank))
        return misuse(collective, "the buffer is a null pointer");
    const bool is_bool = collective.type == ElementType::boolean;
    if (collective.is_reduction() && is_bool && collective.op == Op::average)
        return misuse(collective, "bools have no average; add them up as integers");
    for (const int one : {collective.root, collective.receiver})
        if (one < 0 || one >= world_size) return misuse(collective, ranks_below(world_size));
    if (overlaps(collective, rank, world_size))
        return misuse(
            collective,
            "input and output overlap: they may only where this rank's own part is in its place");
    if (collective.is_point_to_point() && collective.root == collective.receiver)
        return misuse(collective, "a rank needs no message to itself");
    return {};
}

}  // namespace ddprun::groups
