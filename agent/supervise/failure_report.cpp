// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/failure_report.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace ddprun::agent {
namespace {

bool is_polite(int signal) {
    return signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
}

bool is_not_executed(const WorkerExit& exit) {
    return std::holds_alternative<WorkerExit::NotExecuted>(exit.how());
}

bool has_not_run(const WorkerExit& exit) {
    return is_not_executed(exit) || std::holds_alternative<WorkerExit::NotStarted>(exit.how());
}

Blame blame_while_stopping(const ExitFacts& facts) {
    const auto signal = facts.exit.signal();
    const bool is_expected = has_not_run(facts.exit) || signal == facts.stop_signal ||
                             (facts.has_killed && signal == SIGKILL);
    if (is_expected) return Blame::expected_exit;
    // A crash takes longer than an ordinary exit: a worker that failed because of the crash may
    // have ended first and caused the stop.
    const bool is_crash = signal && !is_polite(*signal);
    return is_crash && facts.root_cause == RootCause::not_reported ? Blame::own_failure
                                                                   : Blame::secondary_failure;
}

using namespace std::chrono_literals;

/// If the output goes on after the exception, the worker may have caught it: the message then only
/// mentions the exception.
void name_exception(control::WorkerFailure& failure, const std::string& output) {
    auto shown = exception_in(output);
    if (!shown) return;
    if (shown->is_end)
        failure.message = std::move(shown->line);
    else
        failure.message += " after " + shown->line;
}

/// A disk that does not answer must not delay the report of a failure.
constexpr Duration explain_timeout = 5s;
/// A GPU error at most this long before a worker's death counts as the cause of the death.
constexpr Duration xid_blame_window = 60s;
/// The record of a GPU error may be read this much later than the death that the error caused.
constexpr Duration xid_delay = 2s;

bool has(const std::vector<int>& local_ranks, int local_rank) {
    return std::find(local_ranks.begin(), local_ranks.end(), local_rank) != local_ranks.end();
}

bool is_killed(const control::WorkerFailure& failure) {
    return failure.end.kind == control::WorkerEnd::Kind::killed && failure.end.value == SIGKILL;
}

}  // namespace

Blame blame_of(const ExitFacts& facts) {
    if (facts.exit.is_success()) return Blame::none;
    if (facts.stop_signal) return blame_while_stopping(facts);
    if (facts.root_cause == RootCause::in_question || facts.root_cause == RootCause::known)
        return Blame::secondary_failure;
    if (is_not_executed(facts.exit)) return Blame::not_executable;
    const auto signal = facts.exit.signal();
    return signal && is_polite(*signal) ? Blame::perhaps_signalled : Blame::own_failure;
}

void FailureReport::handle(Event event, Instant now, std::vector<Effect>& out) {
    std::visit(
        Overloaded{
            [&](const WorkerExited& exited) { on_exited(exited, now, out); },
            [&](FailureExplained& explained) { on_explained(std::move(explained), now, out); },
            [&](StoreUnreachable& unreachable) {
                on_store_unreachable(std::move(unreachable.reason), now, out);
            },
            [&](const NoticeGiven& given) {
                if (notice_until_ && given.round == place_.round) stop(out);
            },
            [&](HangFound& found) { hang_ = std::move(found); },
            [&](XidSeen& seen) { on_xid(std::move(seen), now); },
            [&](const StopBegan& began) {
                notice_until_.reset();
                if (!stop_signal_) stop_signal_ = began.signal;
            },
            [&](const StopReceived& received) {
                is_stop_for_secondary_ = received.is_for_secondary_failure;
            },
            [&](LeaveBegan) {
                if (std::holds_alternative<Settling>(question_)) question_ = Watching{};
            },
            [&](DeadlinePassed) { on_deadline(now, out); },
        },
        event);
    check();
}

void FailureReport::on_exited(const WorkerExited& exited, Instant now, std::vector<Effect>& out) {
    const auto blame = blame_of({exited.exit, stop_signal_, exited.has_killed, root_cause()});
    if (blame == Blame::none) return;
    const int rank = place_.rank_base + exited.local_rank;
    control::EndedWorker end{
        rank, exited.local_rank, exited.pid, to_worker_end(exited.exit), place_.host};
    if (blame == Blame::expected_exit) return stopped_.push_back(std::move(end));
    failed_.push_back({std::move(end), exited.exit.describe()});
    if (blame == Blame::secondary_failure) return;

    failed_at_ = now;
    if (blame == Blame::perhaps_signalled) {
        question_ = Settling{exited.local_rank, now + limits::settle_window};
    } else if (blame == Blame::not_executable) {
        auto failure = failure_of(exited.local_rank);
        failure.why = cause_in_words(failure.end, {}).sentence;
        set_failure({std::move(failure), control::Cause::Kind::not_executable}, out);
        give_notice_or_stop(rank, now, out);
    } else {
        explain(exited.local_rank, now, out);
    }
}

RootCause FailureReport::root_cause() const {
    if (is_open()) return RootCause::in_question;
    const bool is_secondary = failure_ ? failure_->what.is_secondary : is_stop_for_secondary_;
    if (is_secondary) return RootCause::not_reported;
    return failure_ ? RootCause::known : RootCause::unknown;
}

void FailureReport::explain(int local_rank, Instant now, std::vector<Effect>& out) {
    question_ = Explaining{local_rank, now + explain_timeout};
    out.push_back(ExplainFailure{place_.round, local_rank});
    give_notice_or_stop(place_.rank_base + local_rank, now, out);
}

/// The notice is given before any signal, so that a signalled worker can still report the death
/// that made it fail.
void FailureReport::give_notice_or_stop(int rank, Instant now, std::vector<Effect>& out) {
    if (!place_.notice || stop_signal_) return stop(out);
    auto note = *place_.notice;
    note.ranks = {rank};
    notice_until_ = now + limits::death_notice_timeout;
    out.push_back(GiveNotice{place_.round, std::move(note)});
}

void FailureReport::stop(std::vector<Effect>& out) {
    notice_until_.reset();
    if (!stop_signal_) stop_signal_ = SIGTERM;
    out.push_back(StopWorkers{});
}

void FailureReport::on_explained(
    FailureExplained explained, Instant now, std::vector<Effect>& out) {
    const auto* explaining = std::get_if<Explaining>(&question_);
    const bool is_awaited = explaining != nullptr && explained.round == place_.round &&
                            explained.local_rank == explaining->local_rank;
    if (!is_awaited) return;
    auto failure = failure_of(explained.local_rank);
    if (!explained.message.empty())
        failure.message = std::move(explained.message);
    else if (!explained.cause.brief.empty())
        failure.message += " (" + explained.cause.brief + ")";
    else if (failure.end.kind == control::WorkerEnd::Kind::exited)
        name_exception(failure, explained.details);
    failure.details = std::move(explained.details);
    failure.is_secondary = explained.is_secondary;
    failure.why = std::move(explained.cause.sentence);
    failure.error_file = std::move(explained.error_file);
    failure.log_file = std::move(explained.log_file);
    failure.unix_time = explained.unix_time;
    failure.from_error_file = explained.from_error_file;
    failure.progress = explained.progress;
    if (!failure.is_secondary) return set_failure({std::move(failure), std::nullopt}, out);

    // The explanation names another worker's death as the cause. That worker may be on this node.
    if (!first_secondary_) first_secondary_ = std::move(failure);
    ++secondary_count_;
    if (secondary_count_ >= failed_.size())
        return set_failure({*first_secondary_, std::nullopt}, out);
    const int next = failed_[secondary_count_].end.local_rank;
    question_ = Explaining{next, now + explain_timeout};
    out.push_back(ExplainFailure{place_.round, next});
}

void FailureReport::on_store_unreachable(
    std::string reason, Instant now, std::vector<Effect>& out) {
    if (is_open() || failure_) return;
    control::WorkerFailure failure;
    failure.rank = place_.rank_base;
    failure.message = std::move(reason);
    failed_at_ = now;
    set_failure({std::move(failure), control::Cause::Kind::store_unreachable}, out);
    stop(out);
}

void FailureReport::set_failure(Failure failure, std::vector<Effect>& out) {
    call_hang_the_cause(failure.what);
    name_xid(failure.what);
    const bool is_other = !failure_ || !failure.what.is_secondary;
    failure_ = std::move(failure);
    question_ = Watching{};
    if (is_other) out.push_back(FailureFound{});
}

/// For a worker that this agent has killed because of a hang, the hang is the cause.
void FailureReport::call_hang_the_cause(control::WorkerFailure& failure) const {
    const bool is_meant =
        hang_ && is_killed(failure) && has(hang_->local_ranks, failure.local_rank);
    if (!is_meant) return;
    failure.has_hung = true;
    failure.message = hang_->reason;
    failure.why = "it was killed because the job did not go on (--on-hang=restart)";
}

void FailureReport::on_xid(XidSeen seen, Instant now) {
    if (!xid_ || (seen.needs_restart && !xid_->what.needs_restart)) xid_ = {std::move(seen), now};
}

/// Keeps the worker's own error message. Only for a worker that died of SIGKILL, a GPU error that
/// needs a restart replaces the message.
void FailureReport::name_xid(control::WorkerFailure& failure) const {
    // A GPU error after `xid_delay` is secondary: it comes from the driver's clean-up.
    const bool is_meant = xid_ && failed_at_ - xid_->at <= xid_blame_window &&
                          xid_->at - failed_at_ <= xid_delay &&
                          has(xid_->what.local_ranks, failure.local_rank);
    if (!is_meant) return;
    if (is_killed(failure) && !failure.has_hung && xid_->what.needs_restart)
        failure.message = xid_->what.what;
    failure.why = "the kernel reports an error of its GPU: " + xid_->what.what +
                  (failure.why.empty() ? "" : "; " + failure.why);
}

control::WorkerFailure FailureReport::failure_of(int local_rank) const {
    const auto found = std::find_if(failed_.begin(), failed_.end(), [&](const Failed& one) {
        return one.end.local_rank == local_rank;
    });
    require(found != failed_.end(), "only a failed worker is explained");
    control::WorkerFailure failure;
    failure.rank = found->end.rank;
    failure.local_rank = found->end.local_rank;
    failure.pid = found->end.pid;
    failure.end = found->end.end;
    failure.message = found->how;
    return failure;
}

void FailureReport::on_deadline(Instant now, std::vector<Effect>& out) {
    if (notice_until_ && now >= *notice_until_) stop(out);
    const auto* settling = std::get_if<Settling>(&question_);
    if (settling != nullptr && now >= settling->until) explain(settling->local_rank, now, out);
    const auto* explaining = std::get_if<Explaining>(&question_);
    if (explaining != nullptr && now >= explaining->until)
        set_failure({failure_of(explaining->local_rank), std::nullopt}, out);
}

std::optional<Instant> FailureReport::next_deadline() const {
    if (const auto* settling = std::get_if<Settling>(&question_))
        return earliest(notice_until_, settling->until);
    if (const auto* explaining = std::get_if<Explaining>(&question_))
        return earliest(notice_until_, explaining->until);
    return notice_until_;
}

FailureReport::Ends FailureReport::ends() const {
    Ends ends{{}, stopped_};
    for (const auto& one : failed_)
        ends.failed.push_back(one.end);
    return ends;
}

void FailureReport::check() const {
    require(!notice_until_ || !stop_signal_, "a death is announced before the workers are stopped");
}

std::string describe(const FailureReport::Event& event) {
    using F = FailureReport;
    return std::visit(
        Overloaded{
            [](const F::WorkerExited& e) {
                return "worker exited local_rank=" + std::to_string(e.local_rank) + ": " +
                       e.exit.describe();
            },
            [](const F::FailureExplained& e) {
                return "failure explained round=" + std::to_string(e.round) +
                       " local_rank=" + std::to_string(e.local_rank) + ": " + e.message;
            },
            [](const F::StoreUnreachable& e) { return "store unreachable: " + e.reason; },
            [](const F::NoticeGiven& e) { return "notice given round=" + std::to_string(e.round); },
            [](const F::HangFound& e) { return "hang found: " + e.reason; },
            [](const F::XidSeen& e) { return "xid seen: " + e.what; },
            [](const F::StopBegan& e) { return "stop began with " + signal_name(e.signal); },
            [](const F::StopReceived& e) {
                return std::string{"stop received for a "} +
                       (e.is_for_secondary_failure ? "secondary failure" : "known cause");
            },
            [](F::LeaveBegan) { return std::string{"leave began"}; },
            [](F::DeadlinePassed) { return std::string{"deadline passed"}; },
        },
        event);
}

std::string describe(const FailureReport::Effect& effect) {
    using F = FailureReport;
    return std::visit(
        Overloaded{
            [](const F::ExplainFailure& e) {
                return "explain failure round=" + std::to_string(e.round) +
                       " local_rank=" + std::to_string(e.local_rank);
            },
            [](const F::GiveNotice& e) {
                std::string text = "give notice round=" + std::to_string(e.round) + " deaths=";
                for (const int rank : e.note.ranks)
                    text += (text.back() == '=' ? "" : ",") + std::to_string(rank);
                return text;
            },
            [](F::StopWorkers) { return std::string{"stop workers"}; },
            [](F::FailureFound) { return std::string{"failure found"}; },
        },
        effect);
}

control::WorkerEnd to_worker_end(const WorkerExit& exit) {
    using Kind = control::WorkerEnd::Kind;
    return std::visit(
        Overloaded{
            [](const WorkerExit::Exited& e) {
                return control::WorkerEnd{Kind::exited, e.code};
            },
            [](const WorkerExit::Killed& e) {
                return control::WorkerEnd{Kind::killed, e.signal, e.core_dumped};
            },
            [](const WorkerExit::NotExecuted& e) {
                return control::WorkerEnd{Kind::not_executed, e.error_number};
            },
            // Reported as an ordinary failure with its own message, so that a restart may follow.
            [&](const WorkerExit::NotStarted&) {
                return control::WorkerEnd{Kind::exited, exit.shell_code()};
            },
        },
        exit.how());
}

}  // namespace ddprun::agent
