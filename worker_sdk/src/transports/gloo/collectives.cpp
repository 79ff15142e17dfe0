// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/gloo/collectives.hpp"

#include "worker_sdk/src/groups/collective.hpp"

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>

#include <string.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddprun::groups {

namespace {

using Kind = Collective::Kind;

template <class Options>
void prepare(Options& options, const DdprunCollective& collective) {
    options.setTag(collective.tag);
    options.setTimeout(std::chrono::milliseconds(collective.timeout_ms));
}

gloo::AllreduceOptions::Func combine_of(const DdprunCollective& collective) {
    return combiner(
        static_cast<ElementType>(collective.element_type), static_cast<Op>(collective.op));
}

std::size_t bytes_of(const DdprunCollective& collective) {
    return collective.count * collective.element_bytes;
}

std::size_t bytes_of_all(const Mesh& mesh, const DdprunCollective& collective) {
    return bytes_of(collective) * mesh.size();
}

bool is_root(const Mesh& mesh, const DdprunCollective& collective) {
    return mesh.rank() == static_cast<std::size_t>(collective.root);
}

/// This rank's part of a buffer that has one for each.
char* own_part(const Mesh& mesh, const DdprunCollective& collective, void* all) {
    return static_cast<char*>(all) + bytes_of(collective) * mesh.rank();
}

void copy(void* to, const void* from, std::size_t bytes) {
    if (to != from) ::memmove(to, from, bytes);
}

/// Calls `call` with an element of the collective's size: Gloo depends on nothing else.
template <class Call>
void with_element(const DdprunCollective& collective, Call call) {
    switch (collective.element_bytes) {
        case 1: return call(std::uint8_t{});
        case 2: return call(std::uint16_t{});
        case 4: return call(std::uint32_t{});
        default: return call(std::uint64_t{});
    }
}

void all_reduce(const Mesh& mesh, const DdprunCollective& collective, void* data) {
    gloo::AllreduceOptions options(mesh.context());
    prepare(options, collective);
    // Fixed: the order of the additions, and so every bit, depends on the world size alone.
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setReduceFunction(combine_of(collective));
    with_element(collective, [&](auto element) {
        options.setOutput(static_cast<decltype(element)*>(data), collective.count);
    });
    gloo::allreduce(options);
}

void reduce(const Mesh& mesh, const DdprunCollective& collective) {
    std::vector<char> result(bytes_of(collective));  // Gloo needs it on all ranks
    gloo::ReduceOptions options(mesh.context());
    prepare(options, collective);
    options.setRoot(collective.root);
    options.setReduceFunction(combine_of(collective));
    with_element(collective, [&](auto element) {
        using Element = decltype(element);
        options.setInput(static_cast<Element*>(collective.data), collective.count);
        options.setOutput(reinterpret_cast<Element*>(result.data()), collective.count);
    });
    gloo::reduce(options);
    if (is_root(mesh, collective)) ::memcpy(collective.data, result.data(), result.size());
}

void broadcast(const Mesh& mesh, const DdprunCollective& collective) {
    gloo::BroadcastOptions options(mesh.context());
    prepare(options, collective);
    options.setRoot(collective.root);
    options.setOutput(static_cast<char*>(collective.data), bytes_of(collective));
    gloo::broadcast(options);
}

void all_gather(const Mesh& mesh, const DdprunCollective& collective) {
    copy(own_part(mesh, collective, collective.data), collective.input, bytes_of(collective));
    gloo::AllgatherOptions options(mesh.context());
    prepare(options, collective);
    options.setOutput(static_cast<char*>(collective.data), bytes_of_all(mesh, collective));
    gloo::allgather(options);
}

/// Gloo has no reduce_scatter. Part p begins with the rank after p and goes round the ring; each
/// rank adds its own, and rank p is the last. A part is sent in pieces, so that adding one overlaps
/// with sending the one before it.
void reduce_scatter(Mesh& mesh, const DdprunCollective& collective) {
    constexpr std::uint8_t prefix = 0x71;
    constexpr std::size_t most_piece_bytes = 128 * 1024;
    const auto slot = gloo::Slot::build(prefix, collective.tag);
    const std::chrono::milliseconds timeout(collective.timeout_ms);
    const auto combine = combine_of(collective);
    const auto part_bytes = bytes_of(collective);
    const auto ranks = mesh.size();
    const auto previous = static_cast<int>((mesh.rank() + ranks - 1) % ranks);
    const auto next = static_cast<int>((mesh.rank() + 1) % ranks);

    const auto* const input = static_cast<const char*>(collective.input);
    // What arrives, then the sums that are passed on: of all parts but the first and the last.
    char* const arriving = mesh.scratch(part_bytes * (ranks - 1));
    char* const sums = arriving + part_bytes;
    const auto from = mesh.transport().createUnboundBuffer(arriving, part_bytes);
    // Gloo only reads what it sends.
    const auto own = mesh.transport().createUnboundBuffer(
        const_cast<char*>(input), bytes_of_all(mesh, collective));
    const auto to = mesh.transport().createUnboundBuffer(sums, part_bytes * (ranks - 2));
    const auto pieces = (part_bytes + most_piece_bytes - 1) / most_piece_bytes;
    const auto first_part = (mesh.rank() + ranks - 1) % ranks;
    const auto for_each_piece = [&](const auto& call) {
        for (std::size_t start = 0; start < part_bytes; start += most_piece_bytes)
            call(start, std::min(most_piece_bytes, part_bytes - start));
    };

    for_each_piece([&](std::size_t start, std::size_t bytes) {
        from->recv(previous, slot, start, bytes);
        own->send(next, slot, first_part * part_bytes + start, bytes);
    });
    for (std::size_t step = 2; step <= ranks; ++step) {
        const auto part = (mesh.rank() + ranks - step % ranks) % ranks;
        const bool is_last = step == ranks;
        const auto place = is_last ? 0 : (step - 2) * part_bytes;
        char* const sum = is_last ? static_cast<char*>(collective.data) : sums + place;
        for_each_piece([&](std::size_t start, std::size_t bytes) {
            from->waitRecv(timeout);
            const auto count = bytes / collective.element_bytes;
            combine(sum + start, arriving + start, input + part * part_bytes + start, count);
            if (is_last) return;
            from->recv(previous, slot, start, bytes);
            to->send(next, slot, place + start, bytes);
        });
    }
    for (std::size_t sent = 0; sent < pieces; ++sent)
        own->waitSend(timeout);
    for (std::size_t sent = 0; sent < pieces * (ranks - 2); ++sent)
        to->waitSend(timeout);
}

void gather(const Mesh& mesh, const DdprunCollective& collective) {
    std::vector<char> input(bytes_of(collective));
    ::memcpy(input.data(), collective.input, input.size());
    gloo::GatherOptions options(mesh.context());
    prepare(options, collective);
    options.setRoot(collective.root);
    options.setInput(input.data(), input.size());
    if (is_root(mesh, collective))
        options.setOutput(static_cast<char*>(collective.data), bytes_of_all(mesh, collective));
    gloo::gather(options);
}

void scatter(const Mesh& mesh, const DdprunCollective& collective) {
    std::vector<char> input;
    std::vector<char*> parts;
    if (is_root(mesh, collective)) {
        input.resize(bytes_of_all(mesh, collective));
        ::memcpy(input.data(), collective.input, input.size());
        for (std::size_t peer = 0; peer < mesh.size(); ++peer)
            parts.push_back(input.data() + bytes_of(collective) * peer);
    }
    gloo::ScatterOptions options(mesh.context());
    prepare(options, collective);
    options.setRoot(collective.root);
    if (is_root(mesh, collective)) options.setInputs(parts, bytes_of(collective));
    options.setOutput(static_cast<char*>(collective.data), bytes_of(collective));
    gloo::scatter(options);
}

void all_to_all(const Mesh& mesh, const DdprunCollective& collective) {
    const auto bytes = bytes_of_all(mesh, collective);
    gloo::AlltoallOptions options(mesh.context());
    prepare(options, collective);
    // Gloo only reads it.
    options.setInput(static_cast<char*>(const_cast<void*>(collective.input)), bytes);
    options.setOutput(static_cast<char*>(collective.data), bytes);
    gloo::alltoall(options);
}

/// Gloo needs an address also for a buffer without elements.
char* address_of(const void* buffer) {
    static char nothing = 0;
    return buffer ? static_cast<char*>(const_cast<void*>(buffer)) : &nothing;
}

void all_gather_v(const Mesh& mesh, const DdprunCollective& collective) {
    std::vector<std::size_t> bytes(mesh.size());
    std::size_t start = 0;
    for (std::size_t rank = 0; rank < mesh.size(); ++rank) {
        bytes[rank] = collective.received_counts[rank] * collective.element_bytes;
        if (rank < mesh.rank()) start += bytes[rank];
    }
    char* const output = address_of(collective.data);
    if (bytes[mesh.rank()] > 0) copy(output + start, collective.input, bytes[mesh.rank()]);
    gloo::AllgathervOptions options(mesh.context());
    prepare(options, collective);
    options.setOutput(output, bytes);
    gloo::allgatherv(options);
}

void all_to_all_v(const Mesh& mesh, const DdprunCollective& collective) {
    const auto bytes_of_parts = [&](const std::size_t* counts) {
        std::vector<std::int64_t> bytes;
        for (std::size_t rank = 0; rank < mesh.size(); ++rank)
            bytes.push_back(static_cast<std::int64_t>(counts[rank] * collective.element_bytes));
        return bytes;
    };
    gloo::AlltoallvOptions options(mesh.context());
    prepare(options, collective);
    options.setInput(address_of(collective.input), bytes_of_parts(collective.sent_counts));
    options.setOutput(address_of(collective.data), bytes_of_parts(collective.received_counts));
    gloo::alltoallv(options);
}

/// One message. An empty one is sent as one byte, otherwise it would not wait for its peer.
void move(const Mesh& mesh, const DdprunCollective& collective) {
    constexpr std::uint8_t own_prefix = 0x70;
    const auto slot = gloo::Slot::build(own_prefix, collective.tag);
    const std::chrono::milliseconds timeout(collective.timeout_ms);
    std::vector<char> bytes(std::max<std::size_t>(bytes_of(collective), 1));
    auto buffer = mesh.transport().createUnboundBuffer(bytes.data(), bytes.size());
    if (static_cast<Kind>(collective.kind) == Kind::send) {
        if (collective.count > 0) ::memcpy(bytes.data(), collective.input, bytes_of(collective));
        buffer->send(collective.receiver, slot, 0, bytes.size());
        buffer->waitSend(timeout);
    } else {
        buffer->recv(collective.root, slot, 0, bytes.size());
        buffer->waitRecv(timeout);
        if (collective.count > 0) ::memcpy(collective.data, bytes.data(), bytes_of(collective));
    }
}

void barrier(const Mesh& mesh, const DdprunCollective& collective) {
    gloo::BarrierOptions options(mesh.context());
    prepare(options, collective);
    gloo::barrier(options);
}

}  // namespace

void perform(Mesh& mesh, const DdprunCollective& collective) {
    const auto kind = static_cast<Kind>(collective.kind);
    const bool is_message = kind == Kind::send || kind == Kind::recv;
    // Without elements there is nothing to send, but a mismatch must still be detected.
    if (collective.count == 0 && !is_message) return barrier(mesh, collective);
    switch (kind) {
        case Kind::all_reduce: return all_reduce(mesh, collective, collective.data);
        case Kind::reduce: return reduce(mesh, collective);
        case Kind::broadcast: return broadcast(mesh, collective);
        case Kind::all_gather:
        case Kind::split: return all_gather(mesh, collective);
        case Kind::reduce_scatter: return reduce_scatter(mesh, collective);
        case Kind::gather: return gather(mesh, collective);
        case Kind::scatter: return scatter(mesh, collective);
        case Kind::all_to_all: return all_to_all(mesh, collective);
        case Kind::all_gather_v:
            return collective.received_counts ? all_gather_v(mesh, collective)
                                              : all_gather(mesh, collective);
        case Kind::all_to_all_v:
            return collective.received_counts ? all_to_all_v(mesh, collective)
                                              : all_gather(mesh, collective);
        case Kind::barrier: return barrier(mesh, collective);
        case Kind::send:
        case Kind::recv: return move(mesh, collective);
    }
}

}  // namespace ddprun::groups
