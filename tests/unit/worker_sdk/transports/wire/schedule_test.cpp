// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/wire/schedule.hpp"

#include <doctest/doctest.h>

#include <string.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <vector>

using namespace ddprun;
using namespace ddprun::groups;
using Kind = Collective::Kind;

namespace {

using Numbers = std::vector<std::int32_t>;

std::size_t index(int rank) {
    return static_cast<std::size_t>(rank);
}

/// All ranks of one collective, whose bytes move in pieces of any length, in any order.
class Ranks {
public:
    Ranks(const std::vector<Collective>& calls, unsigned seed, bool fit_together = true)
        : random_(seed),
          count_(static_cast<int>(calls.size())),
          scratch_(calls.size()),
          wires_(calls.size() * calls.size()) {
        for (int rank = 0; rank < count_; ++rank) {
            exchanges_.push_back(std::make_unique<Exchange>(rank, count_));
            plan(calls[index(rank)], rank, count_, scratch_[index(rank)], *exchanges_.back());
        }
        for (int from = 0; from < count_; ++from)
            for (int to = 0; to < count_; ++to) {
                if (from == to || !fit_together) continue;
                CHECK(of(from).sends_to(to) == of(to).receives_from(from));
                CHECK(of(from).bytes_to(to) == of(to).bytes_from(from));
            }
    }

    /// Returns false when nothing can be moved although not all is done.
    bool run() {
        while (!is_done())
            if (!move_all(true) && !move_all(false)) return false;
        for (const auto& exchange : exchanges_)
            while (exchange->copy_some())
                continue;
        return true;
    }

    /// This rank is nearly always the one that the others wait for.
    Ranks& with_slowest(int rank) {
        slowest_ = rank;
        return *this;
    }

    std::size_t most_sent() const {
        std::size_t most = 0;
        for (int from = 0; from < count_; ++from) {
            std::size_t bytes = 0;
            for (int to = 0; to < count_; ++to)
                if (from != to) bytes += exchanges_[index(from)]->bytes_to(to);
            most = std::max(most, bytes);
        }
        return most;
    }

private:
    Exchange& of(int rank) { return *exchanges_[index(rank)]; }
    std::deque<std::byte>& wire(int from, int to) {
        return wires_[index(from) * index(count_) + index(to)];
    }

    std::size_t some(std::size_t most) {
        const auto piece = random_() % 4 == 0 ? 1 + random_() % most : most;
        return std::min<std::size_t>(piece, most);
    }

    /// Returns false when none of the ranks that are not slow this time could move anything.
    bool move_all(bool are_some_slow) {
        bool has_moved = false;
        for (int from = 0; from < count_; ++from)
            for (int to = 0; to < count_; ++to) {
                if (from == to) continue;
                const bool is_slow = from == slowest_ ? random_() % 30 != 0 : random_() % 3 == 0;
                if (!are_some_slow || !is_slow) has_moved |= move(from, to);
            }
        return has_moved;
    }

    bool move(int from, int to) {
        bool has_moved = false;
        if (const auto output = of(from).next_output(to); output.size > 0) {
            const auto bytes = some(output.size);
            wire(from, to).insert(wire(from, to).end(), output.data, output.data + bytes);
            of(from).sent(to, bytes);
            has_moved = true;
        }
        const auto room = of(to).next_input(from);
        const auto there = std::min(room.size, wire(from, to).size());
        if (there > 0) {
            const auto bytes = static_cast<std::ptrdiff_t>(some(there));
            const auto begin = wire(from, to).begin();
            std::copy(begin, begin + bytes, room.data);
            wire(from, to).erase(begin, begin + bytes);
            of(to).received(from, static_cast<std::size_t>(bytes));
            has_moved = true;
        }
        return has_moved;
    }

    bool is_done() {
        for (int from = 0; from < count_; ++from)
            for (int to = 0; to < count_; ++to)
                if (from != to && !(of(from).has_sent_all(to) && of(to).has_received_all(from)))
                    return false;
        return true;
    }

    std::mt19937 random_;
    int count_;
    int slowest_ = -1;
    std::vector<Scratch<std::byte>> scratch_;
    std::vector<std::unique_ptr<Exchange>> exchanges_;
    std::vector<std::deque<std::byte>> wires_;
};

std::int32_t number(int rank, std::size_t place) {
    return static_cast<std::int32_t>(place * 31 + index(rank) * 1009 + 7);
}

struct Buffers {
    Numbers input;
    Numbers data;
};

bool has_whole(Kind kind, bool is_input) {
    if (kind == Kind::all_to_all) return true;
    if (is_input) return kind == Kind::reduce_scatter || kind == Kind::scatter;
    return kind == Kind::all_gather || kind == Kind::gather || kind == Kind::split;
}

Buffers buffers_of(Kind kind, int rank, int ranks, std::size_t count) {
    Buffers buffers;
    buffers.input.resize(count * (has_whole(kind, true) ? index(ranks) : 1));
    buffers.data.resize(count * (has_whole(kind, false) ? index(ranks) : 1));
    for (std::size_t i = 0; i < buffers.input.size(); ++i)
        buffers.input[i] = number(rank, i);
    for (std::size_t i = 0; i < buffers.data.size(); ++i)
        buffers.data[i] = number(rank, i);
    return buffers;
}

std::int32_t sum_at(int ranks, std::size_t place) {
    std::int32_t sum = 0;
    for (int rank = 0; rank < ranks; ++rank)
        sum += number(rank, place);
    return sum;
}

/// The content of a rank's `data` afterwards.
Numbers expected(Kind kind, int rank, int ranks, int root, std::size_t count) {
    auto data = buffers_of(kind, rank, ranks, count).data;
    for (std::size_t i = 0; i < count; ++i)
        switch (kind) {
            case Kind::all_reduce: data[i] = sum_at(ranks, i); break;
            case Kind::reduce:
                if (rank == root) data[i] = sum_at(ranks, i);
                break;
            case Kind::broadcast: data[i] = number(root, i); break;
            case Kind::reduce_scatter: data[i] = sum_at(ranks, index(rank) * count + i); break;
            case Kind::scatter: data[i] = number(root, index(rank) * count + i); break;
            default:
                for (int from = 0; from < ranks; ++from) {
                    const auto place = index(from) * count + i;
                    if (kind == Kind::all_to_all)
                        data[place] = number(from, index(rank) * count + i);
                    else if (kind != Kind::gather || rank == root)
                        data[place] = number(from, i);
                }
        }
    return data;
}

void check(Kind kind, int ranks, int root, std::size_t count, unsigned seed, int slowest = -1) {
    std::vector<Buffers> buffers;
    std::vector<Collective> calls;
    for (int rank = 0; rank < ranks; ++rank)
        buffers.push_back(buffers_of(kind, rank, ranks, count));
    for (auto& own : buffers) {
        Collective call;
        call.kind = kind;
        call.type = ElementType::int32;
        call.root = root;
        call.count = count;
        call.input = own.input.data();
        call.data = own.data.data();
        calls.push_back(call);
    }
    CAPTURE(static_cast<int>(kind));
    CAPTURE(ranks);
    CAPTURE(root);
    CAPTURE(count);
    CAPTURE(seed);
    REQUIRE(Ranks(calls, seed).with_slowest(slowest).run());
    for (int rank = 0; rank < ranks; ++rank) {
        CAPTURE(rank);
        const bool is_right = buffers[index(rank)].data == expected(kind, rank, ranks, root, count);
        CHECK(is_right);
    }
}

constexpr Kind kinds[] = {
    Kind::all_reduce,
    Kind::reduce,
    Kind::broadcast,
    Kind::all_gather,
    Kind::split,
    Kind::reduce_scatter,
    Kind::gather,
    Kind::scatter,
    Kind::all_to_all};

std::vector<float> floats(int rank, std::size_t count) {
    std::mt19937 random(static_cast<unsigned>(rank) + 5);
    std::normal_distribution<float> draw(0, 1000);
    std::vector<float> values(count);
    for (auto& value : values)
        value = draw(random);
    return values;
}

}  // namespace

TEST_CASE("between hosts every collective moves the right elements, however the bytes arrive") {
    unsigned seed = 1;
    for (int ranks = 2; ranks <= 9; ++ranks)
        for (const auto kind : kinds)
            for (const std::size_t count : {0u, 1u, 2u, 3u, 8u, 9u, 100u, 2'500u, 40'001u}) {
                // Large ones take long in single bytes.
                if (count > 2'500 && ranks % 3 != 0) continue;
                check(kind, ranks, static_cast<int>(seed) % ranks, count, seed);
                ++seed;
            }
}

TEST_CASE("between hosts a large reduction waits for the slowest rank with bounded memory") {
    constexpr std::size_t bytes = std::size_t{1} << 30;
    CHECK(Exchange::ring_bytes(bytes, 1) <= 1 << 20);
    for (const std::size_t peers : {1u, 127u, 200u, 1000u})
        CHECK(Exchange::ring_bytes(bytes, peers) * peers <= 64 << 20);
    // A chunk of each has to fit.
    CHECK(Exchange::ring_bytes(bytes, 5000) == 64 << 10);
    for (const int ranks : {2, 3}) {
        check(Kind::all_reduce, ranks, 0, 700'001, 3, 1);
        check(Kind::reduce_scatter, ranks, 0, 300'001, 4, 1);
        check(Kind::reduce, ranks, 1, 700'001, 5, 1);
    }
}

TEST_CASE("between hosts ranks that all wait are noticed") {
    // Their roots differ, so each waits for the other.
    Numbers values(10);
    std::vector<Collective> calls(2);
    for (auto& call : calls) {
        call.kind = Kind::recv;
        call.type = ElementType::int32;
        call.count = values.size();
        call.data = values.data();
    }
    calls[0].root = 1;
    calls[0].receiver = 0;
    calls[1].root = 0;
    calls[1].receiver = 1;
    CHECK_FALSE(Ranks(calls, 1, false).run());
}

TEST_CASE("between hosts elements are combined in the order of ranks, at every length") {
    for (int ranks = 2; ranks <= 5; ++ranks)
        for (const std::size_t count : {5u, 5'000u, 50'000u}) {
            std::vector<std::vector<float>> values;
            for (int rank = 0; rank < ranks; ++rank)
                values.push_back(floats(rank, count));
            auto sum = values.front();
            for (int rank = 1; rank < ranks; ++rank)
                for (std::size_t i = 0; i < count; ++i)
                    sum[i] += values[index(rank)][i];
            std::vector<Collective> calls(index(ranks));
            for (int rank = 0; rank < ranks; ++rank) {
                auto& call = calls[index(rank)];
                call.kind = Kind::all_reduce;
                call.type = ElementType::float32;
                call.count = count;
                call.data = values[index(rank)].data();
            }
            REQUIRE(Ranks(calls, 11).run());
            for (const auto& result : values) {
                const bool is_same =
                    ::memcmp(result.data(), sum.data(), count * sizeof(float)) == 0;
                CHECK(is_same);
            }
        }
}

TEST_CASE("between hosts no rank sends more than a large collective takes") {
    constexpr std::size_t count = 1 << 20;
    constexpr std::size_t bytes = count * sizeof(std::int32_t);
    for (int ranks = 2; ranks <= 9; ++ranks)
        for (const auto kind : {Kind::all_reduce, Kind::reduce, Kind::broadcast}) {
            Numbers values(count);
            std::vector<Collective> calls(index(ranks));
            for (auto& call : calls) {
                call.kind = kind;
                call.type = ElementType::int32;
                call.count = count;
                call.data = values.data();
            }
            const bool is_twice = kind == Kind::all_reduce;
            const auto parts = index(ranks);
            const auto least = is_twice ? 2 * bytes / parts * (parts - 1) : bytes;
            CHECK(Ranks(calls, 1).most_sent() <= least + 64 * parts * 2);
        }
}

TEST_CASE("between hosts a barrier needs a word of every rank") {
    Exchange exchange(1, 3);
    Scratch<std::byte> scratch;
    Collective call;
    plan(call, 1, 3, scratch, exchange);
    for (const int peer : {0, 2}) {
        CHECK(exchange.sends_to(peer));
        CHECK(exchange.receives_from(peer));
        CHECK(exchange.bytes_to(peer) == 0);
    }
}

TEST_CASE("between hosts parts of different lengths arrive, and empty ones") {
    for (int ranks = 2; ranks <= 6; ++ranks) {
        const auto length = [](int from, int to) { return index((from + 2 * to) % 3) * 40; };
        std::vector<Numbers> inputs(index(ranks));
        std::vector<Numbers> outputs(index(ranks));
        std::vector<Numbers> wanted(index(ranks));
        std::vector<Collective> calls(index(ranks));
        for (int rank = 0; rank < ranks; ++rank) {
            auto counts = std::make_shared<PartCounts>();
            for (int other = 0; other < ranks; ++other) {
                counts->sent.push_back(length(rank, other));
                counts->received.push_back(length(other, rank));
                inputs[index(rank)].resize(
                    inputs[index(rank)].size() + length(rank, other), rank * 100 + other);
                wanted[index(rank)].resize(
                    wanted[index(rank)].size() + length(other, rank), other * 100 + rank);
            }
            outputs[index(rank)].resize(wanted[index(rank)].size());
            auto& call = calls[index(rank)];
            call.kind = Kind::all_to_all_v;
            call.type = ElementType::int32;
            call.count = 80;
            call.counts = counts;
            call.input = inputs[index(rank)].data();
            call.data = outputs[index(rank)].data();
        }
        REQUIRE(Ranks(calls, 21).run());
        CHECK(outputs == wanted);
    }
}
