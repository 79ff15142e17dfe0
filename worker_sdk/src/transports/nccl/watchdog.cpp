// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/watchdog.hpp"

#include "worker_sdk/src/start_thread.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <utility>

namespace ddprun::nccl {

namespace {

using groups::GroupError;
using groups::Outcome;

}  // namespace

Watchdog::Watchdog(const Device& device, Settings settings)
    : device_(device),
      settings_(std::move(settings)) {
    if (const auto status = device_.driver().event_create(&last_, event_without_time)) {
        cannot_begin_ = GroupError{GroupError::Kind::other, device_.driver().describe(status)};
        return;
    }
    cannot_begin_ = groups::caught([this]() -> Outcome {
        thread_ = start_thread([this] { serve(); });
        return {};
    });
}

Watchdog::~Watchdog() {
    {
        const std::lock_guard lock(mutex_);
        is_closing_ = true;
    }
    closing_.notify_all();
    if (thread_.joinable()) thread_.join();
    const OnDevice here(device_);
    if (last_) device_.driver().event_destroy(last_);
}

DriverFunctions::Status Watchdog::watch(DriverFunctions::Stream stream) {
    const std::lock_guard lock(mutex_);
    const auto status = device_.driver().event_record(last_, stream);
    if (status != 0) return status;
    is_watching_ = true;
    since_ = Clock::now();
    return 0;
}

bool Watchdog::is_over() {
    const std::lock_guard lock(mutex_);
    if (is_watching_)
        is_watching_ = device_.driver().event_query(last_) == DriverFunctions::not_ready;
    return !is_watching_;
}

void Watchdog::serve() {
    const OnDevice here(device_);
    std::unique_lock lock(mutex_);
    while (!closing_.wait_for(
        lock, waiting_times::steps_check_interval, [&] { return is_closing_; })) {
        lock.unlock();
        if (auto found = look()) {
            settings_.abort(std::move(*found));
            return;
        }
        lock.lock();
    }
}

Outcome Watchdog::look() {
    if (is_over()) return {};
    if (auto found = settings_.look()) return found;
    const std::lock_guard lock(mutex_);
    if (Clock::now() - since_ < settings_.timeout) return {};
    return GroupError{GroupError::Kind::timeout, "not done within the group's timeout"};
}

}  // namespace ddprun::nccl
