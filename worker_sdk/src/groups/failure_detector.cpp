// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/failure_detector.hpp"

#include "rendezvous/base/machine.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace ddprun::groups {

namespace {

using ErrorKind = GroupError::Kind;

GroupError loss_of(const std::vector<int>& ranks, const std::string& why = {}) {
    return {ErrorKind::peer_lost, "lost " + text_of(ranks) + why, ranks};
}

std::string in_milliseconds(Duration length) {
    const auto count = std::chrono::duration_cast<std::chrono::milliseconds>(length).count();
    return std::to_string(count) + " ms";
}

/// Whether to report the error to the other ranks. After a timeout this rank leaves, and without a
/// report the others would count it as lost. A loss that names no rank does not help them.
bool is_worth_a_report(const GroupError& error) {
    return !error.ranks.empty() || error.kind == ErrorKind::timeout;
}

/// True when the ranks have been gone for long enough. Until then their data may still be in
/// flight.
bool has_settled(std::optional<Instant>& ended_since, Instant now) {
    if (!ended_since) ended_since = now;
    return now - *ended_since >= waiting_times::process_end_settle;
}

}  // namespace

void FailureDetector::handle(Event event, Instant now, std::vector<Effect>& out) {
    std::visit([&](auto& fact) { on(std::move(fact), now, out); }, event);
}

/// Whether a question is due. If it is, schedules the next question.
bool FailureDetector::is_due(Schedule& questions, Instant now) {
    if (now < questions.at) return false;
    questions.interval = std::min(questions.interval * 2, questions.longest);
    questions.at = now + questions.interval;
    return true;
}

std::optional<Instant> FailureDetector::next_deadline() const {
    std::optional<Instant> next;
    for (std::size_t queue = 0; queue < queue_count; ++queue)
        next = earliest(next, next_deadline(static_cast<Queue>(queue)));
    return next;
}

std::optional<Instant> FailureDetector::next_deadline(Queue queue) const {
    const auto& state = states_[static_cast<std::size_t>(queue)];
    if (verdict_) return {};
    if (const auto* waiting = std::get_if<Waiting>(&state))
        return settings_.has_reports ? std::optional{waiting->questions.at} : std::nullopt;
    if (const auto* naming = std::get_if<Naming>(&state)) return naming->look_at;
    return {};
}

void FailureDetector::on(WaitSeen fact, Instant, Effects&) {
    auto& here = state(fact.queue);
    const auto* known = std::get_if<Waiting>(&here);
    const bool is_new = known ? known->since < fact.since : std::holds_alternative<Idle>(here);
    if (!is_new || verdict_) return;
    const auto broken = known ? known->broken : std::nullopt;  // the same for all waits of a call
    here = Waiting{fact.since, first_questions(fact.queue, fact.since), broken};
}

void FailureDetector::on(WaitEnded fact, Instant, Effects&) {
    auto& here = state(fact.queue);
    const auto* known = std::get_if<Waiting>(&here);
    if (known && known->since == fact.since) here = Idle{};
}

void FailureDetector::on(ProcessesEnded fact, Instant now, Effects& out) {
    if (fact.ranks.empty()) return;
    if (sees_memory()) return out.push_back(Found{loss_of(fact.ranks)});
    if (verdict_ || settings_.way != Way::gpus) return;
    auto& here = state(fact.queue);
    auto* const waiting = std::get_if<Waiting>(&here);
    auto* const naming = std::get_if<Naming>(&here);
    if (!waiting && !naming) return;
    if (!has_settled(waiting ? waiting->ended_since : naming->ended_since, now)) return;
    // The rank may have ended for a reason that it reported.
    confirm(fact.queue, loss_of({fact.ranks.front()}, " (its process ended)"), out);
}

void FailureDetector::on(PeersLate fact, Instant, Effects& out) {
    if (!sees_memory()) return;
    out.push_back(Found{GroupError{
        ErrorKind::timeout,
        text_of(fact.ranks) + " did not come within " + in_milliseconds(fact.after),
        fact.ranks}});
}

void FailureDetector::on(CallsDiffer fact, Instant, Effects& out) {
    if (!sees_memory()) return;
    out.push_back(Found{std::move(fact.mismatch)});
}

void FailureDetector::on(ConnectionBroke fact, Instant now, Effects& out) {
    auto* const waiting = std::get_if<Waiting>(&state(fact.queue));
    if (!waiting || verdict_) return;
    auto& broken = waiting->broken;
    if (!broken || broken->call != fact.call) broken = Waiting::Break{fact.call, now};
    if (now - broken->since < waiting_times::broken_connection_timeout) return;
    broken->since = now;
    is_broken_here_ = true;
    out.push_back(BreakConnections{});
}

void FailureDetector::on(CallFailed fact, Instant now, Effects& out) {
    auto& error = fact.error;
    // A usage error of this rank must not affect the others.
    if (error.kind == ErrorKind::usage && !verdict_)
        return out.push_back(Decided{fact.queue, error});
    if (verdict_ || settings_.way == Way::memory) return decide(fact.queue, error, out);
    const bool is_loss = error.kind == ErrorKind::peer_lost;
    const bool is_timeout = error.kind == ErrorKind::timeout;
    if (!is_loss && !is_timeout) {
        // The mismatch is detected only by the ranks of this host, or only by the rank that has
        // compared the calls.
        if (error.kind == ErrorKind::mismatch && settings_.has_reports)
            out.push_back(Publish{error});
        const bool may_have_a_reason =
            settings_.way == Way::hosts && error.kind == ErrorKind::other;
        return may_have_a_reason ? confirm(fact.queue, error, out) : decide(fact.queue, error, out);
    }
    // A suspicion that names ranks is preferred.
    const auto* const confirming = std::get_if<Confirming>(&state(fact.queue));
    if (confirming && !confirming->error.ranks.empty() && error.ranks.empty()) return;
    if (is_broken_here_) return confirm(fact.queue, error, out);
    if (is_loss && settings_.way == Way::gpus && error.ranks.empty())
        return name(fact.queue, error, now, out);
    const bool may_wait_too = is_loss && settings_.way == Way::hosts && !error.ranks.empty();
    if (may_wait_too) fact.suspects = error.ranks;
    const bool has_suspects = !fact.suspects.empty() && fact.queue != Queue::group;
    const bool is_asked = may_wait_too || (is_timeout && error.ranks.empty());
    if (is_asked && has_suspects && settings_.has_reports) return ask_waiters(std::move(fact), out);
    confirm(fact.queue, error, out);
}

void FailureDetector::on(WaiterTimedOut fact, Instant, Effects& out) {
    GroupError error{
        ErrorKind::timeout, fact.operation + ": not done when its deadline passed", fact.missing};
    error.operation = fact.operation;
    if (!fact.missing.empty()) error.text += "; " + text_of(fact.missing) + " did not come";
    decide(fact.queue, std::move(error), out);
}

void FailureDetector::on(KeyMissing fact, Instant, Effects& out) {
    decide(fact.queue, {ErrorKind::timeout, std::move(fact.text)}, out);
}

void FailureDetector::on(StoreLost fact, Instant, Effects& out) {
    decide(fact.queue, {ErrorKind::peer_lost, std::move(fact.text)}, out);
}

void FailureDetector::on(Aborted, Instant, Effects&) {
    is_broken_here_ = true;
}

void FailureDetector::on(DeadlinePassed fact, Instant now, Effects& out) {
    if (verdict_) return;
    auto& here = state(fact.queue);
    if (auto* const waiting = std::get_if<Waiting>(&here)) {
        if (!settings_.has_reports || !is_due(waiting->questions, now)) return;
        // A rank reports its call only when it waits long, and only for a call of the program.
        const bool is_long = now - waiting->since >= waiting_times::first_compare_after;
        if (is_long && fact.queue != Queue::group)
            out.push_back(CompareCalls{fact.queue});
        else
            out.push_back(ReadReports{fact.queue});
    } else if (auto* const naming = std::get_if<Naming>(&here)) {
        look_for_name(fact.queue, *naming, now, out);
    }
}

void FailureDetector::on(ReportRead fact, Instant, Effects& out) {
    if (!verdict_) decide(fact.queue, std::move(fact.error), out);
}

void FailureDetector::on(DesyncSeen fact, Instant, Effects& out) {
    if (verdict_) return;
    out.push_back(Publish{fact.mismatch});
    decide(fact.queue, std::move(fact.mismatch), out);
}

void FailureDetector::on(NoReport fact, Instant, Effects& out) {
    auto* const confirming = std::get_if<Confirming>(&state(fact.queue));
    if (!confirming || verdict_) return;
    if (is_worth_a_report(confirming->error)) out.push_back(Publish{confirming->error});
    decide(fact.queue, std::move(confirming->error), out);
}

void FailureDetector::on(WaitersRead fact, Instant now, Effects& out) {
    auto* const asking = std::get_if<Asking>(&state(fact.queue));
    if (!asking || verdict_) return;
    auto error = std::move(asking->error);
    if (error.kind == ErrorKind::timeout) {
        error.ranks = fact.silent;
        if (!error.ranks.empty()) error.text += "; nothing was heard of " + text_of(error.ranks);
        return confirm(fact.queue, std::move(error), out);
    }
    // One of the lost ranks has reported a long wait. That rank may have timed out and then reports
    // the reason.
    const bool does_one_wait = fact.silent.size() < asking->asked.size();
    if (does_one_wait)
        name(fact.queue, std::move(error), now, out);
    else
        confirm(fact.queue, std::move(error), out);
}

void FailureDetector::on(StoreUnreachable fact, Instant now, Effects& out) {
    auto& here = state(fact.queue);
    if (verdict_) return;
    if (std::holds_alternative<Asking>(here)) return on(WaitersRead{fact.queue, {}}, now, out);
    if (auto* const confirming = std::get_if<Confirming>(&here))
        decide(fact.queue, std::move(confirming->error), out);
}

FailureDetector::Schedule FailureDetector::first_questions(Queue queue, Instant since) const {
    using namespace waiting_times;
    // While connections are being made, no broken connection shows a lost rank: only reports do.
    if (settings_.way == Way::gpus || queue == Queue::group)
        return {
            since + first_report_check_after, first_report_check_after, longest_report_interval};
    return {since + first_compare_after, first_compare_after, longest_compare_interval};
}

void FailureDetector::ask_waiters(CallFailed fact, Effects& out) {
    out.push_back(AskWaiters{fact.queue, fact.suspects});
    state(fact.queue) = Asking{std::move(fact.error), std::move(fact.suspects)};
}

void FailureDetector::name(Queue queue, GroupError error, Instant now, Effects& out) {
    using namespace waiting_times;
    auto& here = state(queue);
    Naming naming{std::move(error), now + reason_timeout, {}, now, 0, {}};
    naming.questions = {now, shortest_reason_interval / 2, longest_reason_interval};
    if (settings_.way == Way::gpus) {
        naming.until = now + name_timeout;
        naming.questions = {now, first_report_check_after / 2, longest_report_interval};
        if (const auto* waiting = std::get_if<Waiting>(&here))
            naming.ended_since = waiting->ended_since;
    }
    here = std::move(naming);
    look_for_name(queue, std::get<Naming>(here), now, out);
}

void FailureDetector::look_for_name(Queue queue, Naming& naming, Instant now, Effects& out) {
    const bool is_late = now >= naming.until;
    const bool has_looked =
        settings_.way != Way::gpus || naming.looks >= waiting_times::fewest_name_checks;
    if (is_broken_here_ || (is_late && has_looked))
        return confirm(queue, std::move(naming.error), out);
    ++naming.looks;
    if (!is_late && settings_.has_reports && is_due(naming.questions, now))
        out.push_back(ReadReports{queue});
    naming.look_at = settings_.way == Way::gpus ? now + waiting_times::name_check_interval
                                                : std::min(naming.questions.at, naming.until);
}

void FailureDetector::confirm(Queue queue, GroupError error, Effects& out) {
    if (!settings_.has_reports) return decide(queue, std::move(error), out);
    state(queue) = Confirming{std::move(error)};
    out.push_back(ReadReports{queue});
}

void FailureDetector::decide(Queue queue, GroupError error, Effects& out) {
    if (!verdict_) verdict_ = std::move(error);
    state(queue) = Idle{};
    out.push_back(Decided{queue, *verdict_});
}

}  // namespace ddprun::groups
