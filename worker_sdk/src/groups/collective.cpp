// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/collective.hpp"

#include <cstdint>
#include <limits>
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

/// Everything that ranks must agree on; a field that a kind does not use is 0.
auto agreed(const Collective& collective) {
    const bool is_message = collective.is_point_to_point();
    const bool is_barrier = collective.kind == Kind::barrier;
    return std::tuple{
        static_cast<std::uint64_t>(is_message ? Kind::send : collective.kind),
        is_barrier ? 0 : static_cast<std::uint64_t>(collective.type),
        collective.is_reduction() ? static_cast<std::uint64_t>(collective.op) : 0,
        has_root(collective.kind) ? static_cast<std::uint64_t>(collective.root) : 0,
        is_message ? static_cast<std::uint64_t>(collective.receiver) : 0,
        is_barrier ? 0 : static_cast<std::uint64_t>(collective.count),
        collective.sequence};
}

/// The bytes of a buffer of this rank, which it has where it is not null.
struct Span {
    std::uintptr_t begin;
    std::size_t bytes;

    bool overlaps(const Span& other) const {
        return begin < other.begin + other.bytes && other.begin < begin + bytes;
    }
};

/// Whether input and output share memory in a way that loses input. A rank's own part may be in
/// place.
bool overlaps(const Collective& collective, int rank, int world_size) {
    const auto whole = collective.bytes() * static_cast<std::size_t>(world_size);
    const auto own = collective.bytes() * static_cast<std::size_t>(rank);
    const auto span = [](const void* buffer, std::size_t bytes) {
        return Span{reinterpret_cast<std::uintptr_t>(buffer), buffer ? bytes : 0};
    };
    const auto is_used = collective.root == rank;
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
        case Kind::all_reduce:
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
        case Kind::barrier: return false;
    }
    return false;
}

}  // namespace

std::string describe(const Collective& collective) {
    const auto elements = std::to_string(collective.count) + " " + groups::name_of(collective.type);
    const auto number = std::to_string(collective.sequence);
    if (collective.is_point_to_point())
        return "message " + number + " from rank " + std::to_string(collective.root) + " to rank " +
               std::to_string(collective.receiver) + ": " + elements;
    const auto text = "call " + number + ": " + name_of(collective.kind) + details(collective);
    const bool is_plain = collective.kind == Kind::barrier || collective.kind == Kind::split;
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
    const auto most = std::numeric_limits<std::size_t>::max() /
                      (size_of(collective.type) * static_cast<std::size_t>(world_size));
    if (collective.count > most) return misuse(collective, "more than memory can hold");
    if (collective.count > 0 && lacks_buffer(collective, rank))
        return misuse(collective, "the buffer is a null pointer");
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
