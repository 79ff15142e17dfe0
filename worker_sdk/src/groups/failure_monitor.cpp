// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/failure_monitor.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/signal_masked_thread.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace ddprun::groups {

namespace {

Instant instant_of(FailureMonitor::Clock::time_point moment) {
    return Instant{moment.time_since_epoch()};
}

FailureMonitor::Clock::time_point time_point_of(Instant moment) {
    return FailureMonitor::Clock::time_point{moment.time_since_epoch()};
}

bool has_report(const std::vector<FailureDetector::Effect>& effects) {
    return std::any_of(effects.begin(), effects.end(), [](const auto& effect) {
        return std::holds_alternative<FailureDetector::Publish>(effect);
    });
}

std::size_t index_of(FailureDetector::Queue queue) {
    return static_cast<std::size_t>(queue);
}

}  // namespace

FailureDetector::Queue queue_of(const Collective& collective) {
    if (collective.kind == Collective::Kind::send) return FailureDetector::Queue::sends;
    if (collective.kind == Collective::Kind::recv) return FailureDetector::Queue::receives;
    return FailureDetector::Queue::collectives;
}

FailureMonitor::FailureMonitor(Settings settings)
    : settings_(std::move(settings)),
      detector_({settings_.way, settings_.desync != nullptr}) {}

FailureMonitor::~FailureMonitor() {
    stop();
}

void FailureMonitor::stop() {
    {
        const std::lock_guard lock(mutex_);
        is_closing_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

Outcome FailureMonitor::verdict() const {
    if (!has_verdict_) return {};
    const std::lock_guard lock(mutex_);
    return verdict_;
}

Outcome FailureMonitor::renew(const Wait& wait) {
    if (has_verdict_) return verdict();
    const bool sees_anything = settings_.desync || settings_.ended_processes;
    const auto now = Clock::now();
    if (!sees_anything || now - wait.since < waiting_times::slow_wait_after) return {};
    Lock lock(mutex_);
    if (is_closing_) return {};
    const bool is_alone = !has_thread();
    handle(FailureDetector::WaitSeen{wait.queue, instant_of(wait.since)});
    auto& watched = watched_[index_of(wait.queue)];
    if (!watched) changed_.notify_one();
    if (!watched || watched->expires_at) {
        const auto renewal = settings_.ended_processes ? waiting_times::renewal_of_processes
                                                       : waiting_times::renewal_of_reports;
        watched = Watched{wait, now + renewal};
    }
    if (is_alone) look_without_thread(lock, now);
    return {};
}

/// When no thread can be started, the threads that renew their waits make the checks.
void FailureMonitor::look_without_thread(Lock& lock, Clock::time_point now) {
    is_served_by_caller_ = true;
    drop_expired(now);
    if (const auto next = next_look(); next && *next <= now) {
        looked_at_ = now;
        look(lock);
    }
    end_service();
}

/// The next caller with a failure to explain takes over the work.
void FailureMonitor::end_service() {
    is_served_by_caller_ = false;
    decided_.notify_all();
}

void FailureMonitor::end(const Wait& wait) {
    const std::lock_guard lock(mutex_);
    handle(FailureDetector::WaitEnded{wait.queue, instant_of(wait.since)});
    auto& watched = watched_[index_of(wait.queue)];
    if (watched && watched->expires_at && watched->wait.since == wait.since) watched.reset();
}

bool FailureMonitor::must_break_connections(const Wait& wait) {
    const std::lock_guard lock(mutex_);
    handle(FailureDetector::WaitSeen{wait.queue, instant_of(wait.since)});
    return !handle(FailureDetector::ConnectionBroke{wait.queue, wait.collective.sequence}).empty();
}

GroupError FailureMonitor::explain(const Wait& wait, GroupError error, std::vector<int> suspects) {
    Lock lock(mutex_);
    if (is_closing_ && !verdict_) return error;
    auto effects =
        handle(FailureDetector::CallFailed{wait.queue, std::move(error), std::move(suspects)});
    const auto* const decided =
        effects.empty() ? nullptr : std::get_if<FailureDetector::Decided>(&effects.front());
    if (decided && !detector_.verdict()) return decided->error;  // ends this call alone
    if (decided) return await_verdict(lock);
    failures_.push_back({wait, std::move(effects)});
    while (!is_closing_ && !verdict_) {
        if (has_thread()) {
            changed_.notify_one();
            decided_.wait(lock, [this] {
                const bool is_served = thread_.joinable() || is_served_by_caller_;
                return verdict_ || !is_served;
            });
            continue;
        }
        // When no thread can be started, this caller does the work until there is a verdict.
        is_served_by_caller_ = true;
        serve(lock, [this] { return is_closing_ || verdict_; });
        end_service();
    }
    return await_verdict(lock);
}

GroupError FailureMonitor::find(FailureDetector::Event fact) {
    const std::lock_guard lock(mutex_);
    auto effects = handle(std::move(fact));
    return std::move(std::get<FailureDetector::Found>(effects.at(0)).error);
}

GroupError FailureMonitor::decide(FailureDetector::Event fact) {
    Lock lock(mutex_);
    handle(std::move(fact));
    return await_verdict(lock);
}

void FailureMonitor::note_abort() {
    const std::lock_guard lock(mutex_);
    handle(FailureDetector::Aborted{});
}

/// Requires: the mutex is held.
FailureMonitor::Effects FailureMonitor::handle(FailureDetector::Event fact) {
    Effects effects;
    detector_.handle(std::move(fact), instant_of(Clock::now()), effects);
    if (has_report(effects)) is_publishing_ = true;
    return effects;
}

/// Starts the thread, unless there is one or a caller does its work. Returns false when it cannot
/// be started. Requires: the mutex is held.
bool FailureMonitor::has_thread() {
    if (thread_.joinable() || is_served_by_caller_) return true;
    try {
        thread_ = start_signal_masked_thread([this] {
            Lock lock(mutex_);
            serve(lock, [this] { return is_closing_; });
        });
    } catch (const std::system_error&) {
        return false;
    }
    return true;
}

void FailureMonitor::serve(Lock& lock, const std::function<bool()>& is_over) {
    while (!is_over()) {
        if (!failures_.empty()) {
            explain_next(lock);
            continue;
        }
        const auto now = Clock::now();
        drop_expired(now);
        const auto next = next_look();
        if (!next) {
            changed_.wait(lock);
        } else if (now < *next) {
            changed_.wait_until(lock, *next);
        } else {
            looked_at_ = now;
            look(lock);
        }
    }
}

void FailureMonitor::explain_next(Lock& lock) {
    auto failure = std::move(failures_.front());
    failures_.pop_front();
    // Its queue is monitored until the verdict.
    watched_[index_of(failure.wait.queue)] = Watched{failure.wait, {}};
    perform_all(lock, std::move(failure.asked), failure.wait);
}

void FailureMonitor::look(Lock& lock) {
    std::vector<int> ended;
    if (settings_.ended_processes) {
        lock.unlock();
        ended = settings_.ended_processes();
        lock.lock();
    }
    const auto all = watched_;
    for (const auto& watched : all) {
        if (!watched) continue;
        const auto& wait = watched->wait;
        bool is_decided = false;
        if (!ended.empty())
            is_decided =
                perform_all(lock, handle(FailureDetector::ProcessesEnded{wait.queue, ended}), wait);
        if (!is_decided)
            is_decided =
                perform_all(lock, handle(FailureDetector::DeadlinePassed{wait.queue}), wait);
        if (is_decided) return end_call(lock, wait);
    }
}

void FailureMonitor::end_call(Lock& lock, const Wait& wait) {
    // For waits outside the queues the transport checks by itself.
    if (wait.queue == Queue::group || !at_verdict_ || !verdict_) return;
    const auto verdict = *verdict_;
    lock.unlock();
    at_verdict_(wait.collective, verdict);
    lock.lock();
}

/// Also runs the effects of the answers. Returns true when one of them is the verdict.
bool FailureMonitor::perform_all(Lock& lock, Effects effects, const Wait& wait) {
    bool is_decided = false;
    while (!effects.empty()) {
        const bool publishes = has_report(effects);
        std::vector<FailureDetector::Event> answers;
        lock.unlock();
        for (const auto& effect : effects) {
            is_decided |= std::holds_alternative<FailureDetector::Decided>(effect);
            if (auto answer = perform(effect, wait.collective))
                answers.push_back(std::move(*answer));
        }
        lock.lock();
        if (publishes) is_publishing_ = false;
        effects.clear();
        for (auto& answer : answers)
            for (auto& effect : handle(std::move(answer)))
                effects.push_back(std::move(effect));
    }
    give_out_verdict();
    return is_decided;
}

/// Runs without the mutex, since the store may be slow.
std::optional<FailureDetector::Event> FailureMonitor::perform(
    const FailureDetector::Effect& effect, const Collective& collective) {
    using Answer = std::optional<FailureDetector::Event>;
    return std::visit(
        Overloaded{
            [&](const FailureDetector::ReadReports& question) -> Answer {
                return settings_.desync->read_reports(question.queue);
            },
            [&](const FailureDetector::CompareCalls& question) -> Answer {
                return settings_.desync->compare(question.queue, collective);
            },
            [&](const FailureDetector::AskWaiters& question) -> Answer {
                return settings_.desync->read_waiters(question.queue, collective, question.ranks);
            },
            [&](const FailureDetector::Publish& order) -> Answer {
                settings_.desync->publish(order.error);
                return {};
            },
            // The callers of `find`, `must_break_connections` and `explain` handle these effects.
            [](const FailureDetector::Found&) -> Answer { return {}; },
            [](const FailureDetector::BreakConnections&) -> Answer { return {}; },
            [](const FailureDetector::Decided&) -> Answer { return {}; }},
        effect);
}

/// Requires: the detector has a verdict, or the thread is at work on it.
GroupError FailureMonitor::await_verdict(Lock& lock) {
    give_out_verdict();
    decided_.wait(lock, [&] { return verdict_.has_value(); });
    return *verdict_;
}

void FailureMonitor::give_out_verdict() {
    if (verdict_ || !detector_.verdict() || is_publishing_) return;
    verdict_ = detector_.verdict();
    has_verdict_ = true;
    for (auto& watched : watched_)
        watched.reset();
    decided_.notify_all();
    changed_.notify_all();
}

void FailureMonitor::drop_expired(Clock::time_point now) {
    for (auto& watched : watched_)
        if (watched && watched->expires_at && *watched->expires_at <= now) watched.reset();
}

/// Requires: nothing has expired.
std::optional<FailureMonitor::Clock::time_point> FailureMonitor::next_look() const {
    std::optional<Clock::time_point> next;
    if (verdict_) return next;
    const auto no_later_than = [&](Clock::time_point moment) {
        next = next ? std::min(*next, moment) : moment;
    };
    for (std::size_t queue = 0; queue < watched_.size(); ++queue) {
        const auto& watched = watched_[queue];
        if (!watched) continue;
        if (watched->expires_at) no_later_than(*watched->expires_at);
        if (settings_.ended_processes)
            no_later_than(looked_at_ + waiting_times::peer_check_interval);
        const auto deadline = detector_.next_deadline(static_cast<Queue>(queue));
        if (deadline) no_later_than(time_point_of(*deadline));
    }
    return next;
}

}  // namespace ddprun::groups
