// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/calls.hpp"

#include "worker_sdk/src/groups/part_counts.hpp"

namespace ddprun::nccl {

namespace {

using Kind = groups::Collective::Kind;
using abi::Result;

abi::Type type_of(const groups::Collective& collective) {
    switch (collective.type) {
        case ElementType::float32: return abi::Type::float32;
        case ElementType::float64: return abi::Type::float64;
        case ElementType::float16: return abi::Type::float16;
        case ElementType::bfloat16: return abi::Type::bfloat16;
        case ElementType::int32: return abi::Type::int32;
        case ElementType::int64: return abi::Type::int64;
        case ElementType::int8: return abi::Type::int8;
        case ElementType::uint32: return abi::Type::uint32;
        case ElementType::uint64: return abi::Type::uint64;
        // Any NCCL version can move these types.
        case ElementType::float8_e4m3:
            return collective.is_reduction() ? abi::Type::float8_e4m3 : abi::Type::uint8;
        case ElementType::float8_e5m2:
            return collective.is_reduction() ? abi::Type::float8_e5m2 : abi::Type::uint8;
        case ElementType::boolean:
        case ElementType::uint8: break;
    }
    return abi::Type::uint8;
}

abi::Op op_of(const groups::Collective& collective) {
    // Bools are bytes of 0 and 1: max is a logical or, min a logical and.
    if (collective.type == ElementType::boolean)
        return collective.op == Op::sum || collective.op == Op::max ? abi::Op::max : abi::Op::min;
    switch (collective.op) {
        case Op::sum: return abi::Op::sum;
        case Op::average: return abi::Op::average;
        case Op::min: return abi::Op::min;
        case Op::max: return abi::Op::max;
        case Op::product: return abi::Op::product;
    }
    return abi::Op::sum;
}

/// The part of a buffer that belongs to `rank`.
char* part(void* all, const groups::Collective& collective, int rank) {
    return static_cast<char*>(all) + collective.bytes() * static_cast<std::size_t>(rank);
}
const char* part(const void* all, const groups::Collective& collective, int rank) {
    return part(const_cast<void*>(all), collective, rank);
}

/// The sends and receives of one NCCL group. Started one by one they would wait for each other. The
/// first failure is the result; the rest is skipped.
class Exchange {
public:
    Exchange(const Target& to, const groups::Collective& collective)
        : to_(to),
          collective_(collective),
          begun_(to.nccl.group_start()),
          result_(begun_) {}

    void send(const void* data, int peer) { send(data, collective_.count, peer); }
    void send(const void* data, std::size_t count, int peer) {
        if (can_continue())
            result_ = to_.nccl.send(data, count, type_of(collective_), peer, to_.comm, to_.stream);
    }

    void recv(void* data, int peer) { recv(data, collective_.count, peer); }
    void recv(void* data, std::size_t count, int peer) {
        if (can_continue())
            result_ = to_.nccl.recv(data, count, type_of(collective_), peer, to_.comm, to_.stream);
    }

    void broadcast(const void* input, void* output, std::size_t count, int root) {
        if (can_continue())
            result_ = to_.nccl.broadcast(
                input, output, count, type_of(collective_), root, to_.comm, to_.stream);
    }

    Result end() {
        if (begun_ != Result::success) return begun_;
        const auto ended = to_.nccl.group_end();
        return can_continue() ? ended : result_;
    }

private:
    bool can_continue() const {
        return result_ == Result::success || result_ == Result::in_progress;
    }

    const Target& to_;
    const groups::Collective& collective_;
    const Result begun_;
    Result result_;
};

Result gather(const Target& to, const groups::Collective& call) {
    Exchange exchange(to, call);
    if (to.rank == call.root)
        for (int peer = 0; peer < to.world_size; ++peer)
            if (peer != to.rank || part(call.data, call, peer) != call.input)
                exchange.recv(part(call.data, call, peer), peer);
    if (to.rank != call.root || part(call.data, call, to.rank) != call.input)
        exchange.send(call.input, call.root);
    return exchange.end();
}

Result scatter(const Target& to, const groups::Collective& call) {
    Exchange exchange(to, call);
    if (to.rank == call.root)
        for (int peer = 0; peer < to.world_size; ++peer)
            if (peer != to.rank || part(call.input, call, peer) != call.data)
                exchange.send(part(call.input, call, peer), peer);
    if (to.rank != call.root || part(call.input, call, to.rank) != call.data)
        exchange.recv(call.data, call.root);
    return exchange.end();
}

Result all_to_all(const Target& to, const groups::Collective& call) {
    Exchange exchange(to, call);
    for (int peer = 0; peer < to.world_size; ++peer) {
        exchange.send(part(call.input, call, peer), peer);
        exchange.recv(part(call.data, call, peer), peer);
    }
    return exchange.end();
}

/// The address of an element.
char* at(const void* buffer, std::size_t element, const groups::Collective& call) {
    return static_cast<char*>(const_cast<void*>(buffer)) + element * groups::size_of(call.type);
}

Result all_gather_v(const Target& to, const groups::Collective& call) {
    const auto& counts = call.counts->received;
    const auto starts = groups::part_starts(counts);
    Exchange exchange(to, call);
    for (int root = 0; root < to.world_size; ++root) {
        const auto n = static_cast<std::size_t>(root);
        if (counts[n] == 0) continue;
        auto* const output = at(call.data, starts[n], call);
        exchange.broadcast(root == to.rank ? call.input : output, output, counts[n], root);
    }
    return exchange.end();
}

Result all_to_all_v(const Target& to, const groups::Collective& call) {
    const auto& counts = *call.counts;
    const auto sent_starts = groups::part_starts(counts.sent);
    const auto received_starts = groups::part_starts(counts.received);
    Exchange exchange(to, call);
    for (int peer = 0; peer < to.world_size; ++peer) {
        const auto n = static_cast<std::size_t>(peer);
        if (counts.sent[n] > 0)
            exchange.send(at(call.input, sent_starts[n], call), counts.sent[n], peer);
        if (counts.received[n] > 0)
            exchange.recv(at(call.data, received_starts[n], call), counts.received[n], peer);
    }
    return exchange.end();
}

}  // namespace

std::optional<std::string> unsupported(const groups::Collective& call, int version) {
    const bool is_float8 =
        call.type == ElementType::float8_e4m3 || call.type == ElementType::float8_e5m2;
    if (!is_float8 || !call.is_reduction() || version >= abi::first_float8_version) return {};
    return groups::describe(call) + ": NCCL reduces 8-bit floats from 2.24 on";
}

Result enqueue(const Target& to, const groups::Collective& call, void* scratch) {
    const auto& nccl = to.nccl;
    const auto type = type_of(call);
    const auto op = op_of(call);
    switch (call.kind) {
        case Kind::all_reduce:
            return nccl.all_reduce(
                call.input ? call.input : call.data,
                call.data,
                call.count,
                type,
                op,
                to.comm,
                to.stream);
        case Kind::reduce:
            return nccl.reduce(
                call.data, call.data, call.count, type, op, call.root, to.comm, to.stream);
        case Kind::broadcast:
            return nccl.broadcast(
                call.data, call.data, call.count, type, call.root, to.comm, to.stream);
        case Kind::all_gather:
        case Kind::split:
            return nccl.all_gather(call.input, call.data, call.count, type, to.comm, to.stream);
        case Kind::reduce_scatter:
            return nccl.reduce_scatter(
                call.input, call.data, call.count, type, op, to.comm, to.stream);
        case Kind::gather: return gather(to, call);
        case Kind::scatter: return scatter(to, call);
        case Kind::all_to_all: return all_to_all(to, call);
        case Kind::all_gather_v: return all_gather_v(to, call);
        case Kind::all_to_all_v: return all_to_all_v(to, call);
        case Kind::barrier:
            return nccl.all_reduce(
                scratch, scratch, 1, abi::Type::int32, abi::Op::sum, to.comm, to.stream);
        case Kind::send: return nccl.send(call.input, call.count, type, 1, to.comm, to.stream);
        case Kind::recv: return nccl.recv(call.data, call.count, type, 0, to.comm, to.stream);
    }
    return Result::invalid_argument;
}

}  // namespace ddprun::nccl
