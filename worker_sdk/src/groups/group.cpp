// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/group.hpp"

#include "ddprun/error.hpp"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace ddprun::groups {

namespace {

using namespace std::chrono_literals;

/// How long a collective takes before somebody asks whether all ranks are in the same one.
constexpr auto first_look_after = 1s;
constexpr auto longest_between_looks = 8s;
/// A collective that a peer has left is still going on when all its bytes are under way. If it has
/// not ended after this, it never will: the transport has lost track of one of its messages.
constexpr auto patience_after_a_break = 2s;
constexpr auto between_checks = 200ms;

/// Starts a thread on which no signal is delivered, but those that the thread causes itself.
template <class Body>
std::thread start_without_signals(Body body) {
    sigset_t blocked;
    sigset_t before;
    sigfillset(&blocked);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGPROF})
        sigdelset(&blocked, own);
    ::pthread_sigmask(SIG_SETMASK, &blocked, &before);
    std::thread thread(std::move(body));
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
}

/// What a collective means when there is nobody else.
void perform_alone(const Collective& collective) {
    if (collective.kind != Collective::Kind::all_gather || collective.count == 0) return;
    ::memmove(collective.data, collective.input, collective.count * size_of(collective.type));
}

}  // namespace

ProcessGroup Group::create(
    Settings settings, std::function<Opened()> open, std::unique_ptr<MismatchWatch> watch) {
    auto group = std::make_shared<Group>(settings);
    group->watch_ = std::move(watch);
    auto* raw = group.get();
    group->thread_ = start_without_signals([raw, open = std::move(open)] { raw->serve(open); });

    std::unique_lock lock(group->mutex_);
    group->work_done_.wait(lock, [&] { return group->is_open_ || group->dead_; });
    if (group->dead_) throw_trouble(*group->dead_);
    lock.unlock();
    return ProcessGroup(std::move(group));
}

ProcessGroup Group::create_alone() {
    return ProcessGroup(std::make_shared<Group>(Settings{}));
}

Group::Group(Settings settings) : settings_(settings) {}

Group::~Group() {
    {
        const std::lock_guard lock(mutex_);
        is_closing_ = true;
    }
    work_came_.notify_all();
    if (thread_.joinable()) thread_.join();
}

std::shared_ptr<Ticket> Group::launch(Collective collective) {
    auto ticket = std::make_shared<Ticket>();
    {
        const std::lock_guard lock(mutex_);
        collective.sequence = launched_count_ + 1;
        if (const auto wrong = check(collective, settings_.world_size)) throw_trouble(*wrong);
        if (dead_) throw_trouble(*dead_);
        ++launched_count_;
        ticket->collective = collective;
        if (settings_.world_size > 1) queue_.push_back(ticket);
    }
    if (settings_.world_size > 1) {
        work_came_.notify_one();
    } else {
        perform_alone(collective);
        ticket->is_done = true;
    }
    return ticket;
}

bool Group::is_done(const Ticket& ticket) const {
    const std::lock_guard lock(mutex_);
    return ticket.is_done;
}

void Group::wait(const Ticket& ticket, std::optional<Clock::time_point> deadline) {
    std::unique_lock lock(mutex_);
    Clock::duration between_looks = first_look_after;
    auto look_at = Clock::now() + between_looks;
    while (!ticket.is_done) {
        const auto check_at = std::min<Clock::time_point>(look_at, Clock::now() + between_checks);
        work_done_.wait_until(lock, deadline ? std::min(*deadline, check_at) : check_at, [&] {
            return ticket.is_done;
        });
        if (ticket.is_done) break;
        look_for_broken_connections(lock);
        const auto now = Clock::now();
        if (deadline && now >= *deadline) {
            deadline.reset();
            lock.unlock();
            abort(
                {Trouble::Kind::timeout,
                 describe(ticket.collective) + ": not done when its deadline passed"});
            lock.lock();
        } else if (now >= look_at) {
            look_for_mismatch(lock);
            between_looks = std::min<Clock::duration>(between_looks * 2, longest_between_looks);
            look_at = Clock::now() + between_looks;
        }
    }
    if (ticket.outcome) throw_trouble(*ticket.outcome);
}

void Group::abort(Trouble why) {
    std::shared_ptr<Transport> transport;
    {
        const std::lock_guard lock(mutex_);
        if (!dead_) dead_ = std::move(why);
        transport = transport_;
    }
    work_came_.notify_all();
    if (transport) transport->abort();
}

void Group::serve(const std::function<Opened()>& open) {
    if (!open_transport(open)) return;
    while (auto ticket = next_ticket())
        perform(*ticket);
    const std::lock_guard lock(mutex_);
    transport_.reset();
}

bool Group::open_transport(const std::function<Opened()>& open) {
    auto opened = open();
    const std::lock_guard lock(mutex_);
    if (auto* trouble = std::get_if<Trouble>(&opened)) {
        dead_ = std::move(*trouble);
    } else {
        transport_ = std::get<std::unique_ptr<Transport>>(std::move(opened));
        is_open_ = true;
    }
    work_done_.notify_all();
    return is_open_;
}

/// The next in order; null when the group is closing and nothing is left.
std::shared_ptr<Ticket> Group::next_ticket() {
    std::unique_lock lock(mutex_);
    work_came_.wait(lock, [&] { return is_closing_ || !queue_.empty(); });
    if (queue_.empty()) return nullptr;
    auto ticket = std::move(queue_.front());
    queue_.pop_front();
    current_ = ticket->collective;
    broken_since_.reset();
    return ticket;
}

void Group::perform(Ticket& ticket) {
    auto outcome = run(ticket.collective);
    {
        const std::lock_guard lock(mutex_);
        current_.reset();
        // Of several reasons the first counts: an abort makes the collective fail as well.
        if (outcome && !dead_) dead_ = outcome;
        if (outcome) ticket.outcome = dead_;
        ticket.is_done = true;
    }
    work_done_.notify_all();
}

Outcome Group::run(const Collective& collective) {
    std::shared_ptr<Transport> transport;
    {
        const std::lock_guard lock(mutex_);
        if (dead_) return dead_;
        transport = transport_;
    }
    auto outcome = transport->run(collective, settings_.timeout);
    if (outcome) {
        auto explained = explain(collective, std::move(*outcome));
        transport->abort();  // tells the peers, which may be waiting for us
        return explained;
    }
    if (collective.kind == Collective::Kind::all_reduce && collective.op == Op::average)
        divide(collective.data, collective.count, collective.type, settings_.world_size);
    return {};
}

Trouble Group::explain(const Collective& collective, Trouble trouble) {
    if (trouble.kind == Trouble::Kind::peer_lost && watch_)
        if (auto mismatch = watch_->told()) return *mismatch;
    if (trouble.kind != Trouble::Kind::mismatch)
        trouble.text = describe(collective) + ": " + trouble.text;
    return trouble;
}

void Group::look_for_broken_connections(std::unique_lock<std::mutex>& lock) {
    if (!current_ || !transport_ || !transport_->is_broken()) return;
    const auto now = Clock::now();
    if (!broken_since_) broken_since_ = now;
    if (now - *broken_since_ < patience_after_a_break) return;
    broken_since_ = now;
    const auto transport = transport_;
    lock.unlock();
    transport->abort();  // `run` now fails, and says which peers are gone
    lock.lock();
}

void Group::look_for_mismatch(std::unique_lock<std::mutex>& lock) {
    if (!watch_ || !current_) return;
    const auto collective = *current_;
    lock.unlock();
    auto found = watch_->look(collective);
    if (found) abort(std::move(*found));
    lock.lock();
}

}  // namespace ddprun::groups
