// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/nccl/flight.hpp"

namespace ddprun::nccl {

Flight::Flight(const Device& device) : device_(device) {
    for (auto& end : ends_)
        if (const auto status = device_.driver().event_create(&end, event_without_time)) {
            error_ = device_.error(status);
            return;
        }
}

Flight::~Flight() {
    const OnDevice here(device_);
    for (const auto end : ends_)
        if (end) device_.driver().event_destroy(end);
}

bool Flight::is_full() const {
    return added_ - removed_ == ends_.size();
}

bool Flight::is_empty() const {
    return added_ == removed_;
}

void Flight::add() {
    ++added_;
}

bool Flight::is_newest_open() const {
    return closed_ != added_;
}

DriverFunctions::Event Flight::newest_end() const {
    return ends_[(added_ - 1) % ends_.size()];
}

void Flight::close_newest() {
    closed_ = added_.load();
}

bool Flight::is_oldest_open() const {
    return closed_ == removed_;
}

DriverFunctions::Event Flight::oldest_end() const {
    return ends_[removed_ % ends_.size()];
}

void Flight::remove_oldest() {
    if (is_oldest_open()) ++closed_;  // its end is not queried any more
    ++removed_;
}

}  // namespace ddprun::nccl
