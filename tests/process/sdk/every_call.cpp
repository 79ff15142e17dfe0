// SPDX-License-Identifier: Apache-2.0
#include "tests/process/sdk/every_call.hpp"

#include "tests/process/sdk/say.hpp"
#include "worker_sdk/src/groups/arithmetic.hpp"
#include "worker_sdk/src/groups/loopback.hpp"

#include <string.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace ddprun::tests {

namespace {

using groups::Collective;
using groups::PartCounts;
using Kind = Collective::Kind;
using Bytes = std::vector<std::byte>;

constexpr Kind kinds[] = {
    Kind::all_reduce,
    Kind::reduce,
    Kind::broadcast,
    Kind::all_gather,
    Kind::reduce_scatter,
    Kind::gather,
    Kind::scatter,
    Kind::all_to_all,
    Kind::all_gather_v,
    Kind::all_to_all_v};
constexpr ElementType types[] = {
    ElementType::float32,
    ElementType::float64,
    ElementType::float16,
    ElementType::bfloat16,
    ElementType::int32,
    ElementType::int64,
    ElementType::uint8,
    ElementType::int8,
    ElementType::uint32,
    ElementType::uint64,
    ElementType::boolean,
    ElementType::float8_e4m3,
    ElementType::float8_e5m2};
constexpr Op operations[] = {Op::sum, Op::average, Op::min, Op::max, Op::product};

/// Small numbers, whose sums and products are exact in every type.
Bytes numbers(ElementType type, std::size_t count, int rank, std::size_t salt) {
    Bytes bytes(count * groups::size_of(type));
    groups::with_type(type, [&](auto element) {
        using T = decltype(element);
        for (std::size_t i = 0; i < count; ++i) {
            const auto number = (i + static_cast<std::size_t>(rank) + salt) % 3;
            const T value = groups::narrow<T>(static_cast<groups::Wide<T>>(number));
            ::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
        }
    });
    return bytes;
}

bool has_a_part_for_each(Kind kind, bool is_input) {
    if (kind == Kind::all_to_all) return true;
    if (is_input) return kind == Kind::reduce_scatter || kind == Kind::scatter;
    return kind == Kind::all_gather || kind == Kind::gather;
}

/// The size of the part that goes from one rank to another: some parts are empty.
std::size_t part_count(std::size_t count, std::size_t from, std::size_t to) {
    return count * ((from + 2 * to) % 3) / 2;
}

std::shared_ptr<PartCounts> part_counts(Kind kind, std::size_t count, int rank, int ranks) {
    auto counts = std::make_shared<PartCounts>();
    const auto own = static_cast<std::size_t>(rank);
    const bool is_gathered = kind == Kind::all_gather_v;
    for (std::size_t other = 0; other < static_cast<std::size_t>(ranks); ++other) {
        counts->received.push_back(part_count(count, other, is_gathered ? 0 : own));
        if (!is_gathered) counts->sent.push_back(part_count(count, own, other));
    }
    if (is_gathered) counts->sent.push_back(counts->received[own]);
    return counts;
}

Work launch(const ProcessGroup& group, const Collective& call) {
    switch (call.kind) {
        case Kind::all_reduce:
            if (call.input)
                return group.all_reduce_to_raw(
                    call.input, call.data, call.count, call.type, call.op);
            return group.all_reduce_raw(call.data, call.count, call.type, call.op);
        case Kind::reduce:
            return group.reduce_raw(call.data, call.count, call.type, call.root, call.op);
        case Kind::broadcast:
            return group.broadcast_raw(call.data, call.count, call.type, call.root);
        case Kind::all_gather:
            return group.all_gather_raw(call.input, call.data, call.count, call.type);
        case Kind::reduce_scatter:
            return group.reduce_scatter_raw(call.input, call.data, call.count, call.type, call.op);
        case Kind::gather:
            return group.gather_raw(call.input, call.data, call.count, call.type, call.root);
        case Kind::scatter:
            return group.scatter_raw(call.input, call.data, call.count, call.type, call.root);
        case Kind::all_to_all:
            return group.all_to_all_raw(call.input, call.data, call.count, call.type);
        case Kind::all_gather_v:
            return group.all_gather_v_raw(call.input, call.data, call.counts->received, call.type);
        case Kind::all_to_all_v:
            return group.all_to_all_v_raw(
                call.input, call.counts->sent, call.data, call.counts->received, call.type);
        case Kind::barrier:
        case Kind::split:
        case Kind::send:
        case Kind::recv: break;
    }
    return group.barrier();
}

/// The call of every rank, each with its own buffers.
struct Story {
    std::vector<Collective> calls;
    std::deque<Bytes> buffers;

    Story(const Collective& call, int ranks) : calls(static_cast<std::size_t>(ranks), call) {
        for (int rank = 0; rank < ranks; ++rank) {
            auto& mine = calls[static_cast<std::size_t>(rank)];
            if (mine.has_part_counts())
                mine.counts = part_counts(call.kind, call.count, rank, ranks);
            mine.input = buffer(mine, rank, true, ranks);
            mine.data = buffer(mine, rank, false, ranks);
            if (is_in_place(call)) mine.input = nullptr;
        }
    }

    static bool is_in_place(const Collective& call) {
        return call.kind == Kind::all_reduce && call.root % 2 == 0;
    }

    static std::size_t count_of(const Collective& call, bool is_input, int ranks) {
        if (call.counts) {
            const auto& counts = is_input ? call.counts->sent : call.counts->received;
            return std::accumulate(counts.begin(), counts.end(), std::size_t{});
        }
        const bool is_whole = has_a_part_for_each(call.kind, is_input);
        return call.count * static_cast<std::size_t>(is_whole ? ranks : 1);
    }

    void* buffer(const Collective& call, int rank, bool is_input, int ranks) {
        const auto count = count_of(call, is_input, ranks);
        buffers.push_back(numbers(call.type, count, rank, is_input ? 1 : 5));
        return buffers.back().data();
    }
};

std::string try_one(
    const ProcessGroup& group, const Collective& call, Memory& memory, const Copies& copies) {
    Story story(call, group.size());
    const auto rank = static_cast<std::size_t>(group.rank());
    const auto& input = story.buffers[2 * rank];
    const auto& data = story.buffers[2 * rank + 1];
    Bytes own_input = input;
    Bytes own_data = data;
    auto mine = story.calls[rank];
    mine.input = own_input.data();
    mine.data = own_data.data();
    auto* shared = static_cast<std::byte*>(memory.data());
    if (shared) {
        mine.input = shared;
        mine.data = shared + input.size();
        copies.there(shared, input.data(), input.size());
        copies.there(mine.data, data.data(), data.size());
    }

    if (Story::is_in_place(call)) mine.input = nullptr;
    launch(group, mine).wait();
    groups::perform_together(story.calls);

    if (shared) copies.back(own_data.data(), mine.data, own_data.size());
    const auto wrong = std::mismatch(data.begin(), data.end(), own_data.begin());
    if (wrong.first == data.end()) return {};
    return groups::describe(call) + ": byte " + std::to_string(wrong.first - data.begin()) +
           " of " + std::to_string(data.size()) + " is " + std::to_string(int(*wrong.second)) +
           ", not " + std::to_string(int(*wrong.first));
}

}  // namespace

Copies host_copies() {
    const auto copy = [](void* to, const void* from, std::size_t bytes) {
        if (bytes > 0) ::memcpy(to, from, bytes);
    };
    return {copy, copy};
}

/// Skips pairs of a type and an operation: each pair is another computation but no other memory
/// access, which is what a sanitizer checks. The step does not divide their number, so each pair
/// has its turn.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t every_pair = 7;
#else
constexpr std::size_t every_pair = 1;
#endif

std::string try_every_call(
    const ProcessGroup& group, std::size_t count, bool is_shared, const Copies& copies) {
    Memory memory;
    if (is_shared)
        memory = group.allocate(2 * (count + 1) * 8 * static_cast<std::size_t>(group.size()));
    int round = 0;
    std::size_t pair = 0;
    for (const auto kind : kinds) {
        for (const auto type : types)
            for (const auto op : operations) {
                if (pair++ % every_pair != 0) continue;
                Collective call;
                call.kind = kind;
                call.type = type;
                call.op = op;
                call.count = count;
                call.root = round++ % group.size();
                if (!call.is_reduction() && op != Op::sum) continue;
                if (type == ElementType::boolean && op == Op::average) continue;
                if (auto wrong = try_one(group, call, memory, copies); !wrong.empty()) return wrong;
            }
        say("kind " + std::to_string(static_cast<int>(kind)) + " with " + std::to_string(count));
    }
    return {};
}

std::string try_one_call(const ProcessGroup& group, std::size_t n, std::size_t count) {
    Collective call;
    call.kind = kinds[n % std::size(kinds)];
    call.type = types[n % std::size(types)];
    call.op = operations[n % std::size(operations)];
    if (call.type == ElementType::boolean && call.op == Op::average) call.op = Op::sum;
    call.root = static_cast<int>(n) % group.size();
    call.count = count;
    Memory memory;
    if (n % 2 == 0) memory = group.allocate(2 * count * 8 * static_cast<std::size_t>(group.size()));
    return try_one(group, call, memory, host_copies());
}

std::string try_messages(const ProcessGroup& group, std::size_t count) {
    std::vector<Bytes> buffers;
    std::vector<Work> works;
    const auto own = numbers(ElementType::int32, count, group.rank(), 0);
    for (int step = 1; step < group.size(); ++step) {
        const int to = (group.rank() + step) % group.size();
        const int from = (group.rank() - step + group.size()) % group.size();
        works.push_back(group.send_raw(own.data(), count, ElementType::int32, to));
        buffers.emplace_back(own.size());
        works.push_back(group.recv_raw(buffers.back().data(), count, ElementType::int32, from));
    }
    works.push_back(group.barrier());
    for (auto& work : works)
        work.wait();
    for (int step = 1; step < group.size(); ++step) {
        const int from = (group.rank() - step + group.size()) % group.size();
        if (buffers[static_cast<std::size_t>(step - 1)] !=
            numbers(ElementType::int32, count, from, 0))
            return "the message from rank " + std::to_string(from);
    }
    return {};
}

std::string try_messages_there(const ProcessGroup& group, std::size_t count, const Copies& copies) {
    const auto ranks = static_cast<std::size_t>(group.size());
    const auto own = numbers(ElementType::int32, count, group.rank(), 0);
    const auto memory = group.allocate(own.size() * ranks);
    auto* const place = static_cast<std::byte*>(memory.data());
    const auto part = [&](int rank) { return place + own.size() * static_cast<std::size_t>(rank); };
    copies.there(part(group.rank()), own.data(), own.size());
    std::vector<Work> works;
    for (int peer = 0; peer < group.size(); ++peer) {
        if (peer == group.rank()) continue;
        works.push_back(group.send_raw(part(group.rank()), count, ElementType::int32, peer));
        works.push_back(group.recv_raw(part(peer), count, ElementType::int32, peer));
    }
    for (auto& work : works)
        work.wait();
    for (int peer = 0; peer < group.size(); ++peer) {
        Bytes got(own.size());
        copies.back(got.data(), part(peer), got.size());
        if (got != numbers(ElementType::int32, count, peer, 0))
            return "the message of " + std::to_string(count) + " int32 from rank " +
                   std::to_string(peer);
    }
    return {};
}

}  // namespace ddprun::tests
