// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/loopback.hpp"

#include <string.h>

#include <string>
#include <utility>

namespace ddprun::groups {

namespace {

template <class T>
void add(void* sum, const void* addend, std::size_t count) {
    auto* into = static_cast<T*>(sum);
    const auto* from = static_cast<const T*>(addend);
    for (std::size_t i = 0; i < count; ++i)
        into[i] += from[i];
}

void add_elements(void* sum, const void* addend, std::size_t count, ElementType type) {
    switch (type) {
        case ElementType::float32: return add<float>(sum, addend, count);
        case ElementType::float64: return add<double>(sum, addend, count);
        case ElementType::int64: return add<std::int64_t>(sum, addend, count);
        case ElementType::byte: return;
    }
}

void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) ::memmove(to, from, bytes);
}

}  // namespace

class Loopback::End : public Transport {
public:
    End(std::shared_ptr<Loopback> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}
    ~End() override { meeting_->fail(lost()); }

    Outcome run(const Collective& collective, std::chrono::milliseconds timeout) override {
        return meeting_->run(rank_, collective, timeout);
    }
    void abort() override { meeting_->fail(lost()); }
    bool is_broken() override { return false; }  // `run` learns of it at once

private:
    Trouble lost() const {
        return {Trouble::Kind::peer_lost, "rank " + std::to_string(rank_) + " left the group"};
    }

    std::shared_ptr<Loopback> meeting_;
    int rank_;
};

Loopback::Loopback(int world_size) : arrived_(static_cast<std::size_t>(world_size)) {}

std::unique_ptr<Transport> Loopback::transport(std::shared_ptr<Loopback> meeting, int rank) {
    return std::make_unique<End>(std::move(meeting), rank);
}

Outcome Loopback::run(int rank, const Collective& collective, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    if (dead_) return dead_;
    for (std::size_t other = 0; other < arrived_.size(); ++other) {
        if (!arrived_[other] || describe(*arrived_[other]) == describe(collective)) continue;
        dead_ = Trouble{
            Trouble::Kind::mismatch,
            "rank " + std::to_string(rank) + " is at " + describe(collective) + ", rank " +
                std::to_string(other) + " at " + describe(*arrived_[other])};
        changed_.notify_all();
        return dead_;
    }

    const auto turn = performed_count_;
    arrived_[static_cast<std::size_t>(rank)] = collective;
    if (++arrived_count_ == arrived_.size()) {
        perform();
        return {};
    }
    const bool over =
        changed_.wait_for(lock, timeout, [&] { return performed_count_ != turn || dead_; });
    if (performed_count_ != turn) return {};
    if (!over)
        dead_ = Trouble{
            Trouble::Kind::timeout,
            "not all ranks came within " + std::to_string(timeout.count()) + " ms"};
    changed_.notify_all();
    return dead_;
}

void Loopback::fail(Trouble trouble) {
    const std::lock_guard lock(mutex_);
    if (!dead_) dead_ = std::move(trouble);
    changed_.notify_all();
}

void Loopback::perform() {
    const auto& first = *arrived_.front();
    const auto bytes = first.count * size_of(first.type);
    switch (first.kind) {
        case Collective::Kind::all_reduce:
            for (std::size_t rank = 1; rank < arrived_.size(); ++rank)
                add_elements(first.data, arrived_[rank]->data, first.count, first.type);
            for (const auto& other : arrived_)
                copy(other->data, first.data, bytes);
            break;
        case Collective::Kind::broadcast:
            for (const auto& other : arrived_)
                copy(other->data, arrived_[static_cast<std::size_t>(first.root)]->data, bytes);
            break;
        case Collective::Kind::all_gather:
            for (const auto& to : arrived_)
                for (std::size_t rank = 0; rank < arrived_.size(); ++rank)
                    copy(
                        static_cast<std::byte*>(to->data) + rank * bytes,
                        arrived_[rank]->input,
                        bytes);
            break;
        case Collective::Kind::barrier: break;
    }
    for (auto& one : arrived_)
        one.reset();
    arrived_count_ = 0;
    ++performed_count_;
    changed_.notify_all();
}

}  // namespace ddprun::groups
