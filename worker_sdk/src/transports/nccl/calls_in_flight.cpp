// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/calls_in_flight.hpp"

namespace ddprun::nccl {

CallsInFlight::CallsInFlight(const Device& device) : device_(device) {
    for (auto& end : ends_)
        if (const auto status = device_.driver().event_create(&end, event_without_time)) {
            error_ = device_.error(status);
            return;
        }
}

CallsInFlight::~CallsInFlight() {
    const OnDevice here(device_);
    for (const auto end : ends_)
        if (end) device_.driver().event_destroy(end);
}

bool CallsInFlight::is_full() const {
    return added_ - removed_ == ends_.size();
}

bool CallsInFlight::is_empty() const {
    return added_ == removed_;
}

void CallsInFlight::add(std::uint64_t sequence) {
    sequences_[added_ % sequences_.size()] = sequence;
    ++added_;
}

bool CallsInFlight::is_open(std::uint64_t sequence) const {
    return is_newest_open() && sequences_[(added_ - 1) % sequences_.size()] == sequence;
}

DriverFunctions::Event CallsInFlight::end_of(std::uint64_t sequence) const {
    for (std::size_t i = removed_; i < closed_; ++i)
        if (sequences_[i % sequences_.size()] == sequence) return ends_[i % ends_.size()];
    return nullptr;
}

bool CallsInFlight::is_newest_open() const {
    return closed_ != added_;
}

DriverFunctions::Event CallsInFlight::newest_end() const {
    return ends_[(added_ - 1) % ends_.size()];
}

void CallsInFlight::close_newest() {
    closed_ = added_.load();
}

bool CallsInFlight::is_oldest_open() const {
    return closed_ == removed_;
}

DriverFunctions::Event CallsInFlight::oldest_end() const {
    return ends_[removed_ % ends_.size()];
}

void CallsInFlight::remove_oldest() {
    if (is_oldest_open()) ++closed_;  // its end is not queried any more
    ++removed_;
}

}  // namespace ddprun::nccl
