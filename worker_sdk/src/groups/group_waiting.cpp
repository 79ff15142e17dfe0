// SPDX-License-Identifier: Apache-2.0
/// The part of a group that a thread is in while it waits for a ticket.
#include "worker_sdk/src/groups/group.hpp"
#include "worker_sdk/src/groups/trouble.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace ddprun::groups {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// How long a collective takes before somebody asks whether all ranks are in the same one.
constexpr auto first_look_after = 1s;
constexpr auto longest_between_looks = 2s;
/// A collective that a peer has left is still going on when all its bytes are under way. If it has
/// not ended after this, it never will: the transport has lost track of one of its messages.
constexpr auto patience_after_a_break = 5s;
constexpr auto between_checks = 200ms;

}  // namespace

void Group::wait(const Ticket& ticket, std::optional<Clock::time_point> deadline) {
    try {
        await_done(ticket, deadline);
    } catch (const std::exception& error) {  // out of memory, say: the ticket may be queued still
        abort({Trouble::Kind::other, error.what()});
        std::unique_lock lock(mutex_);
        work_done_.wait(lock, [&] { return ticket.is_done; });
        throw;
    }
    if (ticket.outcome) throw_trouble(*ticket.outcome, settings_.round);
}

void Group::perform(const Collective& collective) {
    Ticket ticket;
    launch(collective, ticket);
    wait(ticket, {});
}

void Group::await_done(const Ticket& ticket, std::optional<Clock::time_point> deadline) {
    std::unique_lock lock(mutex_);
    auto& lane = lane_of(ticket.collective);
    Clock::duration between_looks = first_look_after;
    std::optional<Clock::time_point> look_at;
    while (!ticket.is_done) {
        if (perform_while_waiting(lock, ticket, deadline)) continue;
        const auto start = Clock::now();
        if (!look_at) look_at = start + between_looks;
        const auto check_at = std::min<Clock::time_point>(*look_at, start + between_checks);
        work_done_.wait_until(lock, deadline ? std::min(*deadline, check_at) : check_at, [&] {
            return ticket.is_done;
        });
        if (ticket.is_done) break;
        look_for_broken_connections(lock, lane);
        const auto now = Clock::now();
        if (deadline && now >= *deadline) {
            deadline.reset();
            give_up(lock, ticket);
        } else if (now >= *look_at) {
            look_for_mismatch(lock, lane);
            between_looks = std::min<Clock::duration>(between_looks * 2, longest_between_looks);
            look_at = Clock::now() + between_looks;
        }
    }
}

/// Whether the lane's next ticket may be performed now, on a thread of the program's.
bool Group::may_perform(const Lane& lane) const {
    return transport_ && transport_->is_for_any_thread() && !lane.current && !lane.queue.empty();
}

/// True when this thread has performed a ticket: this one, or one before it that had only to end.
bool Group::perform_while_waiting(
    std::unique_lock<std::mutex>& lock,
    const Ticket& ticket,
    std::optional<Clock::time_point> deadline) {
    auto& lane = lane_of(ticket.collective);
    if (!may_perform(lane)) return false;
    const auto* front = lane.queue.front();
    if (front != &ticket && !front->has_begun) return false;
    auto timeout = settings_.timeout;
    if (deadline) {
        const auto left = std::chrono::ceil<milliseconds>(*deadline - Clock::now());
        timeout = std::clamp(left, 1ms, timeout);
    }
    perform_front(lock, lane, timeout);
    wake(lane);
    return true;
}

void Group::give_up(std::unique_lock<std::mutex>& lock, const Ticket& ticket) {
    const auto transport = transport_;
    lock.unlock();
    Trouble trouble{
        Trouble::Kind::timeout,
        describe(ticket.collective) + ": not done when its deadline passed"};
    trouble.operation = describe(ticket.collective);
    if (transport) trouble.ranks = transport->missing();
    if (!trouble.ranks.empty()) trouble.text += "; " + text_of(trouble.ranks) + " did not come";
    abort(std::move(trouble));
    lock.lock();
}

void Group::look_for_broken_connections(std::unique_lock<std::mutex>& lock, Lane& lane) {
    if (!lane.current || !transport_ || !transport_->is_broken()) return;
    const auto now = Clock::now();
    if (!lane.broken_since) lane.broken_since = now;
    if (now - *lane.broken_since < patience_after_a_break) return;
    lane.broken_since = now;
    const auto transport = transport_;
    lock.unlock();
    transport->abort();  // `run` now fails, and says which peers are gone
    lock.lock();
}

}  // namespace ddprun::groups
