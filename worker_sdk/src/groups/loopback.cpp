// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/loopback.hpp"

#include "worker_sdk/src/groups/part_counts.hpp"

#include <string.h>

#include <string>
#include <utility>

namespace ddprun::groups {

namespace {

using Kind = Collective::Kind;

void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0 && to != from) ::memmove(to, from, bytes);
}

/// The n-th part of a buffer that has one for each rank.
void* part(void* buffer, std::size_t n, std::size_t bytes) {
    return static_cast<std::byte*>(buffer) + n * bytes;
}
const void* part(const void* buffer, std::size_t n, std::size_t bytes) {
    return static_cast<const std::byte*>(buffer) + n * bytes;
}

/// Combines the elements of all ranks; `of(rank)` points to a rank's elements.
template <class Of>
std::vector<std::byte> combined(const Collective& call, std::size_t ranks, Of of) {
    std::vector<std::byte> result(call.bytes());
    copy(result.data(), of(0), result.size());
    const auto combine = combiner(call.type, call.op);
    for (std::size_t rank = 1; rank < ranks; ++rank)
        combine(result.data(), result.data(), of(rank), call.count);
    if (call.op == Op::average)
        divide(result.data(), call.count, call.type, static_cast<int>(ranks));
    return result;
}

/// Performs all_gather_v and all_to_all_v.
void exchange_parts(const std::vector<Collective>& calls) {
    const auto size = size_of(calls.front().type);
    for (std::size_t from = 0; from < calls.size(); ++from) {
        const auto& counts = calls[from].counts->sent;
        const auto starts = part_starts(counts);
        for (std::size_t to = 0; to < calls.size(); ++to) {
            const auto own = counts.size() == 1 ? 0 : to;
            const auto place = part_starts(calls[to].counts->received)[from];
            copy(
                part(calls[to].data, place, size),
                part(calls[from].input, starts[own], size),
                counts[own] * size);
        }
    }
}

void reduce_scatter(const std::vector<Collective>& calls) {
    const auto bytes = calls.front().bytes();
    std::vector<std::vector<std::byte>> results;
    for (std::size_t to = 0; to < calls.size(); ++to)
        results.push_back(combined(calls.front(), calls.size(), [&](std::size_t from) {
            return part(calls[from].input, to, bytes);
        }));
    for (std::size_t to = 0; to < calls.size(); ++to)
        copy(calls[to].data, results[to].data(), bytes);
}

}  // namespace

void perform_together(const std::vector<Collective>& calls) {
    const auto& first = calls.front();
    if (first.has_part_counts() && first.counts) return exchange_parts(calls);
    const auto bytes = first.bytes();
    if (bytes == 0) return;
    const auto ranks = calls.size();
    const auto& root = calls[static_cast<std::size_t>(first.root)];
    const auto data_of = [&](std::size_t rank) { return calls[rank].data; };
    switch (first.kind) {
        case Kind::all_reduce: {
            const auto result = combined(first, ranks, [&](std::size_t rank) {
                return calls[rank].input ? calls[rank].input : calls[rank].data;
            });
            for (const auto& one : calls)
                copy(one.data, result.data(), bytes);
            return;
        }
        case Kind::reduce: return copy(root.data, combined(first, ranks, data_of).data(), bytes);
        case Kind::broadcast:
            for (const auto& one : calls)
                copy(one.data, root.data, bytes);
            return;
        case Kind::all_gather:
        case Kind::all_gather_v:
        case Kind::all_to_all_v:
        case Kind::split:
            for (const auto& to : calls)
                for (std::size_t from = 0; from < ranks; ++from)
                    copy(part(to.data, from, bytes), calls[from].input, bytes);
            return;
        case Kind::reduce_scatter: return reduce_scatter(calls);
        case Kind::gather:
            for (std::size_t from = 0; from < ranks; ++from)
                copy(part(root.data, from, bytes), calls[from].input, bytes);
            return;
        case Kind::scatter:
            for (std::size_t to = 0; to < ranks; ++to)
                copy(calls[to].data, part(root.input, to, bytes), bytes);
            return;
        case Kind::all_to_all:
            for (std::size_t to = 0; to < ranks; ++to)
                for (std::size_t from = 0; from < ranks; ++from)
                    copy(
                        part(calls[to].data, from, bytes),
                        part(calls[from].input, to, bytes),
                        bytes);
            return;
        case Kind::barrier:
        case Kind::send:
        case Kind::recv: return;
    }
}

class Loopback::End : public Transport {
public:
    End(std::shared_ptr<Loopback> loopback, int rank)
        : loopback_(std::move(loopback)),
          rank_(rank) {}
    ~End() override { loopback_->fail(lost()); }

    Outcome run(const Collective& collective, std::chrono::milliseconds timeout) override {
        if (collective.is_point_to_point()) return loopback_->move(collective, timeout);
        return loopback_->run(rank_, collective, timeout);
    }
    void abort() override { loopback_->fail(lost()); }
    bool is_broken() override { return false; }  // `run` detects a broken peer at once

private:
    GroupError lost() const {
        GroupError error{GroupError::Kind::peer_lost, text_of({rank_}) + " left the group"};
        error.ranks = {rank_};
        return error;
    }

    std::shared_ptr<Loopback> loopback_;
    int rank_;
};

Loopback::Loopback(int world_size) : arrived_(static_cast<std::size_t>(world_size)) {}

std::unique_ptr<Transport> Loopback::transport(std::shared_ptr<Loopback> loopback, int rank) {
    return std::make_unique<End>(std::move(loopback), rank);
}

Outcome Loopback::run(int rank, const Collective& collective, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    if (dead_) return dead_;
    for (std::size_t other = 0; other < arrived_.size(); ++other)
        if (arrived_[other] && !is_same_call(*arrived_[other], collective))
            return fail_as_mismatch(rank, collective, static_cast<int>(other), *arrived_[other]);

    const auto turn = performed_count_;
    arrived_[static_cast<std::size_t>(rank)] = collective;
    if (++arrived_count_ < arrived_.size())
        return await(lock, timeout, [&] { return performed_count_ != turn; });

    std::vector<Collective> calls;
    for (auto& one : arrived_)
        calls.push_back(*std::exchange(one, std::nullopt));
    perform_together(calls);
    arrived_count_ = 0;
    ++performed_count_;
    changed_.notify_all();
    return {};
}

Outcome Loopback::move(const Collective& collective, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    if (dead_) return dead_;
    const bool is_sender = collective.kind == Kind::send;
    auto& message = messages_[{collective.root, collective.receiver}];
    if (!message.here) {
        const auto turn = message.moved_count;
        message.here = collective;
        return await(lock, timeout, [&] { return message.moved_count != turn; });
    }
    const auto there = *std::exchange(message.here, std::nullopt);
    if (!is_same_call(there, collective))
        return is_sender
                   ? fail_as_mismatch(collective.root, collective, collective.receiver, there)
                   : fail_as_mismatch(collective.receiver, collective, collective.root, there);
    if (is_sender)
        copy(there.data, collective.input, collective.bytes());
    else
        copy(collective.data, there.input, collective.bytes());
    ++message.moved_count;
    changed_.notify_all();
    return {};
}

Outcome Loopback::fail_as_mismatch(
    int rank, const Collective& mine, int other, const Collective& theirs) {
    dead_ = mismatch_between(
        text_of({rank}) + " is at " + describe(mine),
        text_of({other}) + " is at " + describe(theirs));
    changed_.notify_all();
    return dead_;
}

template <class Done>
Outcome Loopback::await(
    std::unique_lock<std::mutex>& lock, std::chrono::milliseconds timeout, Done is_done) {
    changed_.wait_for(lock, timeout, [&] { return is_done() || dead_; });
    if (is_done()) return {};
    if (!dead_)
        dead_ = GroupError{
            GroupError::Kind::timeout,
            "not all ranks came within " + std::to_string(timeout.count()) + " ms"};
    changed_.notify_all();
    return dead_;
}

void Loopback::fail(GroupError error) {
    const std::lock_guard lock(mutex_);
    if (!dead_) dead_ = std::move(error);
    changed_.notify_all();
}

}  // namespace ddprun::groups
