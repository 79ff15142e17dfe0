// SPDX-License-Identifier: Apache-2.0
/// The part of a group that waits for a ticket.
#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/groups/group.hpp"
#include "worker_sdk/src/groups/group_error.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string>
#include <utility>

namespace ddprun::groups {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// How many calls are in flight before a program that waits for none has to: half of what the nccl
/// backend can begin at once.
constexpr std::size_t most_in_flight = 16;

}  // namespace

void Group::wait(const Ticket& ticket, std::optional<Clock::time_point> deadline) {
    try {
        await_done(ticket, deadline);
    } catch (const std::exception& thrown) {  // out of memory: the ticket may still be queued
        abort({GroupError::Kind::other, thrown.what()});
        std::unique_lock lock(mutex_);
        work_done_.wait(lock, [&] { return ticket.is_done; });
        throw;
    }
    if (!ticket.outcome) return;
    write_trace();
    throw_error(*ticket.outcome, settings_.round);
}

void Group::leave(Ticket& ticket, TicketMemory memory) {
    std::unique_lock lock(mutex_);
    if (ticket.is_done) {
        const auto outcome = ticket.outcome;
        lock.unlock();
        if (!outcome) return;
        write_trace();
        throw_error(*outcome, settings_.round);
    }
    auto& lane = lane_of(ticket.collective);
    ticket.memory = std::move(memory);
    lane.wake();
    // What is left to the group needs an end, and memory, until it is done.
    while (lane.queue.size() > most_in_flight) {
        if (may_perform(lane) && lane.queue.front()->has_begun)
            perform_front(lock, lane, settings_.timeout);
        else
            work_done_.wait(lock);
    }
}

/// Called once, by the first thread that throws the group's error. A file that cannot be written is
/// ignored.
void Group::write_trace() {
    const char* const error_file = ::getenv(environment::error_file);
    const auto path = trace_path(error_file ? error_file : "");
    if (path.empty()) return;
    std::string text;
    {
        const std::lock_guard lock(mutex_);
        if (std::exchange(is_trace_written_, true) || !dead_) return;
        const TraceTitle title{
            settings_.rank,
            settings_.world_size,
            settings_.round,
            config_ ? config_->prefix : std::string{},
            dead_->text};
        text = text_of(title, trace_.latest());
    }
    append_trace(path, text);
}

void Group::perform(const Collective& collective) {
    Ticket ticket;
    launch(collective, ticket);
    wait(ticket, {});
}

void Group::await_done(const Ticket& ticket, std::optional<Clock::time_point> deadline) {
    std::unique_lock lock(mutex_);
    auto& lane = lane_of(ticket.collective);
    std::optional<FailureMonitor::Wait> wait;
    while (!ticket.is_done) {
        if (perform_while_waiting(lock, ticket, deadline)) continue;
        const auto start = Clock::now();
        if (!wait) wait = FailureMonitor::Wait{queue_of(ticket.collective), start, {}};
        const Clock::time_point check_at = start + waiting_times::connection_check_interval;
        work_done_.wait_until(lock, deadline ? std::min(*deadline, check_at) : check_at, [&] {
            return ticket.is_done;
        });
        if (ticket.is_done) break;
        if (deadline && Clock::now() >= *deadline) {
            deadline.reset();
            time_out(lock, ticket);
        } else {
            look_for_failure(lock, lane, *wait);
        }
    }
    // The monitor was not notified of a wait that ended before the first check.
    if (wait && wait->collective.sequence != 0) monitor_->end(*wait);
}

/// Whether the lane's next ticket may be performed now, on a thread of the program's.
bool Group::may_perform(const Lane& lane) const {
    return transport_ && transport_->is_for_any_thread() && !lane.current && !lane.queue.empty();
}

/// Returns true when this thread has performed a ticket: this one, or an earlier one that had begun
/// and only had to be ended.
bool Group::perform_while_waiting(
    std::unique_lock<std::mutex>& lock,
    const Ticket& ticket,
    std::optional<Clock::time_point> deadline) {
    auto& lane = lane_of(ticket.collective);
    if (!may_perform(lane)) return false;
    const auto* front = lane.queue.front();
    if (front != &ticket && !front->has_begun) return false;
    if (deadline && !transport_->keeps_timeout()) {
        // The lane's thread performs it, and this one waits until its deadline.
        lane.queue.front()->is_quick = false;
        lane.wake();
        return false;
    }
    auto timeout = settings_.timeout;
    if (deadline) {
        const auto left = std::chrono::ceil<milliseconds>(*deadline - Clock::now());
        timeout = std::clamp(left, 1ms, timeout);
    }
    perform_front(lock, lane, timeout);
    return true;
}

void Group::time_out(std::unique_lock<std::mutex>& lock, const Ticket& ticket) {
    const auto transport = transport_;
    lock.unlock();
    abort(monitor_->decide(FailureDetector::WaiterTimedOut{
        queue_of(ticket.collective),
        describe(ticket.collective),
        transport ? transport->missing() : std::vector<int>{}}));
    lock.lock();
}

void Group::look_for_failure(
    std::unique_lock<std::mutex>& lock, Lane& lane, FailureMonitor::Wait& wait) {
    if (!lane.current || !transport_) return;
    wait.collective = *lane.current;
    const auto transport = transport_;
    lock.unlock();
    // An aborted `run` fails, and its error names the peers that are gone.
    if (transport->is_broken() && monitor_->must_break_connections(wait)) transport->abort();
    monitor_->renew(wait);
    lock.lock();
}

}  // namespace ddprun::groups
