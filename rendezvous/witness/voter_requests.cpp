// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/witness/voter_requests.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::witness {
namespace {

using namespace std::chrono_literals;

/// Each attempt ends within `limits::vote_timeout`, so the last one has ended when the answer is
/// due.
constexpr Duration tries_for = limits::etcd_answer_timeout - limits::vote_timeout;
/// The longest is far below the third of a ttl after which a lease is renewed.
constexpr Duration first_pause = 50ms;
constexpr Duration longest_pause = 500ms;

/// The lease of a candidacy is its ttl: the record has no other one.
Duration ttl_of(const Candidacy& candidacy) {
    return std::chrono::seconds{candidacy.lease};
}

/// `age`: since its leader's election or last renewal. After its ttl there is no leader: then the
/// next one may be elected.
Record record_of(const voters::JobRecord& read, Duration age) {
    Record record;
    record.epoch = read.epoch;
    record.epoch_revision = static_cast<std::int64_t>(read.epoch);
    if (!read.leader || age >= read.ttl) return record;
    record.held = Candidacy{
        {read.leader->address, read.leader->nonce.to_string(), read.epoch},
        std::chrono::duration_cast<std::chrono::seconds>(read.ttl).count(),
        static_cast<std::int64_t>(read.counter)};
    return record;
}

Campaigned won(const voters::JobRecord& record) {
    return {true, static_cast<std::int64_t>(record.counter), {}, record.ends};
}

Failure failure_of(voters::Proposer::Reason reason) {
    using Reason = voters::Proposer::Reason;
    const auto failure = [](int code, const char* text) {
        return Failure{system_code(code), text};
    };
    switch (reason) {
        case Reason::busy: break;
        case Reason::bad_change:
            return failure(EINVAL, "the record of the job's leader cannot have such values");
        case Reason::lost_race:
            return failure(EAGAIN, "other nodes ask the job's voters at the same time");
        case Reason::no_majority:
            return failure(EHOSTUNREACH, "no majority of the job's voters answers");
        case Reason::no_record: return failure(ENOENT, "the job's voters have no record of it");
        case Reason::no_ballot_left:
            return failure(EOVERFLOW, "no ballot is left: give the job another id");
    }
    contradiction("two operations of one proposer", __FILE__, __LINE__);
}

/// Voters of a job that is over exit at about the same time: without a majority of them there is
/// none that could elect a leader either.
bool may_succeed_later(voters::Proposer::Reason reason, const LeaseRequest* request) {
    using Reason = voters::Proposer::Reason;
    const bool is_job_over = request != nullptr && std::holds_alternative<Erase>(*request);
    return reason == Reason::lost_race || (reason == Reason::no_majority && !is_job_over);
}

}  // namespace

void VoterRequests::handle(Event event, Instant now, Effects& out) {
    std::visit(
        Overloaded{
            [&](Asked& asked) {
                if (const auto* lease = std::get_if<GrantLease>(&asked.what))
                    return out.push_back(
                        Replied{asked.request, LeaseAnswer{Grant{lease->ttl_s, lease->ttl_s}}});
                replace(request_, asked.request, std::move(asked.what), now, out);
            },
            [&](VotersWanted& wanted) {
                replace(change_, wanted.request, std::move(wanted.change), now, out);
            },
            [&](Known& known) { on_known(std::move(known.known), now, out); },
            [&](Answered& answered) {
                pass_on(Proposer::Answered{answered.voter, std::move(answered.answer)}, now, out);
            },
            [&](const Unreached& unreached) { on_unreached(unreached, now, out); },
            [&](DeadlinePassed) { pass_on(Proposer::DeadlinePassed{}, now, out); },
        },
        event);
    begin_what_is_due(now, out);
}

std::optional<Instant> VoterRequests::next_deadline() const {
    if (proposing_) return proposer_->next_deadline();
    std::optional<Instant> next;
    for (const auto* task : {&request_, &change_})
        if (*task) next = earliest(next, (*task)->try_at);
    return next;
}

std::optional<control::Voters> VoterRequests::known() const {
    if (!proposer_) return std::nullopt;
    return control::Voters{lineage_, proposer_->voters_ballot(), proposer_->voters()};
}

std::optional<Nonce> VoterRequests::shared_record() const {
    if (!proposer_ || proposer_->voters().voters.size() < 2) return std::nullopt;
    return lineage_;
}

bool VoterRequests::is_lost() const {
    if (!proposer_) return false;
    const auto is_left = [&](const Nonce& voter) { return !ended_.contains(voter); };
    const auto& set = proposer_->voters();
    // A change may have ended, or may not have begun, at the voters that decide.
    return !voters::VoterSet::has_majority(set.voters, is_left) &&
           (!set.is_joint() || !voters::VoterSet::has_majority(set.former, is_left));
}

void VoterRequests::on_known(control::Voters known, Instant now, Effects& out) {
    if (!voters::problem_of(known.set).empty()) return;
    if (!proposer_) {
        lineage_ = known.lineage;
        proposer_.emplace(Proposer::Config{config_.process, config_.job, known.lineage, known.set});
    }
    if (known.lineage != lineage_) return;
    pass_on(Proposer::Known{known.ballot, std::move(known.set)}, now, out);
}

void VoterRequests::on_unreached(const Unreached& unreached, Instant now, Effects& out) {
    if (proposer_ && unreached.has_ended) {
        ended_.insert(unreached.voter);
        const auto& set = proposer_->voters();
        std::erase_if(ended_, [&](const Nonce& voter) { return !set.has(voter); });
    }
    pass_on(Proposer::Unreached{unreached.voter}, now, out);
}

void VoterRequests::replace(
    std::optional<Task>& place, int request, What what, Instant now, Effects& out) {
    if (place) fail(place, {system_code(ECANCELED), "a newer request has replaced it"}, out);
    place = Task{request, std::move(what), now + tries_for, now, {first_pause, longest_pause}};
    if (!proposer_) fail(place, {system_code(ENOTCONN), "the job's voters are not known yet"}, out);
}

void VoterRequests::begin_what_is_due(Instant now, Effects& out) {
    // A change that cannot be made fails at once.
    while (!proposing_) {
        auto* const task = request_ && now >= request_->try_at ? &*request_
                           : change_ && now >= change_->try_at ? &*change_
                                                               : nullptr;
        if (task == nullptr) return;
        proposing_ = task->request;
        ended_.clear();
        pass_on(Proposer::Wanted{task->request, change_for(*task)}, now, out);
    }
}

voters::Change VoterRequests::change_for(const Task& task) const {
    if (const auto* change = std::get_if<voters::ChangeVoters>(&task.what)) return *change;
    if (task.is_reading) return voters::Read{};
    const auto step_down = [](const Candidacy& candidacy) {
        return voters::Change{voters::StepDown{candidacy.leader.epoch}};
    };
    return std::visit(
        Overloaded{
            [&](const Campaign& asked) -> voters::Change {
                const auto& [leader, lease, none_yet] = asked.candidacy;
                const auto epoch_before = leader.epoch - std::min<std::uint64_t>(leader.epoch, 1);
                return voters::Take{
                    config_.host, leader.endpoint, ttl_of(asked.candidacy), epoch_before};
            },
            [](const KeepLease& asked) -> voters::Change {
                return voters::Renew{asked.candidacy.leader.epoch};
            },
            [](const RecordEnd& asked) -> voters::Change {
                return voters::RecordEnd{asked.candidacy.leader.epoch, asked.ended};
            },
            [&](const Revoke& asked) { return step_down(asked.candidacy); },
            [&](const Erase& asked) { return step_down(asked.candidacy); },
            [](const auto&) -> voters::Change { return voters::Read{}; },
        },
        std::get<LeaseRequest>(task.what));
}

void VoterRequests::pass_on(Proposer::Event event, Instant now, Effects& out) {
    if (!proposer_) return;
    std::vector<Proposer::Effect> effects;
    proposer_->handle(std::move(event), now, effects);
    for (auto& effect : effects)
        std::visit(
            Overloaded{
                [&](Send& send) { out.push_back(std::move(send)); },
                [&](const Proposer::Decided& decided) { on_decided(decided, now, out); },
                [&](const Proposer::Failed& failed) { on_failed(failed, now, out); },
            },
            effect);
}

/// The place of the task that the proposer has worked for; none: it was replaced.
std::optional<VoterRequests::Task>* VoterRequests::end_operation() {
    const auto request = std::exchange(proposing_, std::nullopt);
    for (auto* place : {&request_, &change_})
        if (*place && request == (*place)->request) return place;
    return nullptr;
}

void VoterRequests::on_decided(const Proposer::Decided& decided, Instant now, Effects& out) {
    auto* const place = end_operation();
    if (place == nullptr) return;
    auto& task = **place;
    const auto request = task.request;
    if (decided.outcome == voters::Outcome::no_number_left)
        return fail(
            *place, {system_code(EOVERFLOW), "no number is left: give the job another id"}, out);
    if (std::holds_alternative<voters::ChangeVoters>(task.what)) {
        if (decided.outcome != voters::Outcome::done)
            return fail(*place, {system_code(EPERM), "this node does not lead any more"}, out);
        place->reset();
        return out.push_back(
            Changed{request, control::Voters{lineage_, decided.ballot, decided.record.voters}});
    }
    const auto& what = std::get<LeaseRequest>(task.what);
    // The attempt has not succeeded, and the election is as it was.
    if (const auto* campaign = std::get_if<Campaign>(&what); campaign != nullptr && task.is_reading)
        if (!record_of(decided.record, decided.age).held &&
            decided.record.epoch < campaign->candidacy.leader.epoch && now < task.tries_until) {
            task.is_reading = false;
            return;
        }
    auto answer = answer_to(what, decided);
    place->reset();
    out.push_back(Replied{request, std::move(answer)});
}

Result<LeaseAnswer> VoterRequests::answer_to(
    const LeaseRequest& request, const Proposer::Decided& decided) const {
    const auto& record = decided.record;
    return std::visit(
        Overloaded{
            [&](const ReadRecord&) -> Result<LeaseAnswer> {
                return record_of(record, decided.age);
            },
            [&](const Campaign& asked) -> Result<LeaseAnswer> {
                // A leadership of this process in another epoch is none that the caller has asked
                // for: it gets the record, and revokes it.
                if (record.is_led_by(config_.process) &&
                    record.epoch == asked.candidacy.leader.epoch)
                    return won(record);
                return Campaigned{false, 0, record_of(record, decided.age), {}};
            },
            [&](const KeepLease&) -> Result<LeaseAnswer> {
                const auto ttl = std::chrono::duration_cast<std::chrono::seconds>(record.ttl);
                return Kept{decided.outcome == voters::Outcome::done ? ttl.count() : 0};
            },
            [&](const RecordEnd&) -> Result<LeaseAnswer> {
                return EndStored{decided.outcome == voters::Outcome::done};
            },
            [](const auto&) -> Result<LeaseAnswer> { return Done{}; },
        },
        request);
}

void VoterRequests::on_failed(const Proposer::Failed& failed, Instant now, Effects& out) {
    auto* const place = end_operation();
    if (place == nullptr) return;
    auto& task = **place;
    task.try_at = now + task.pauses.next(*random_);
    const auto* const asked = std::get_if<LeaseRequest>(&task.what);
    if (!may_succeed_later(failed.reason, asked) || task.try_at > task.tries_until)
        return fail(*place, failure_of(failed.reason), out);
    if (failed.may_be_done && asked != nullptr && std::holds_alternative<Campaign>(*asked))
        task.is_reading = true;
}

void VoterRequests::fail(std::optional<Task>& place, Failure failure, Effects& out) {
    const auto request = place->request;
    if (std::holds_alternative<LeaseRequest>(place->what))
        out.push_back(Replied{request, std::move(failure)});
    else
        out.push_back(Changed{request, std::move(failure)});
    place.reset();
}

std::string describe(const VoterRequests::Event& event) {
    using V = VoterRequests;
    return std::visit(
        Overloaded{
            [](const V::Asked& e) { return "asked " + std::to_string(e.request); },
            [](const V::VotersWanted& e) {
                return "wanted " + std::to_string(e.request) + ": " + describe(e.change);
            },
            [](const V::Known& e) { return "known in " + voters::describe(e.known.ballot); },
            [](const V::Answered& e) {
                return "answered by " + e.voter.to_short_string() + ": " + describe(e.answer);
            },
            [](const V::Unreached& e) {
                return (e.has_ended ? "ended " : "unreached ") + e.voter.to_short_string();
            },
            [](V::DeadlinePassed) { return std::string{"deadline passed"}; },
        },
        event);
}

std::string describe(const VoterRequests::Effect& effect) {
    using V = VoterRequests;
    const auto outcome = [](const char* what, int request, const auto& result) {
        return what + std::to_string(request) +
               (result ? std::string{} : ": " + result.error().describe());
    };
    return std::visit(
        Overloaded{
            [](const V::Send& e) { return describe(voters::Proposer::Effect{e}); },
            [&](const V::Replied& e) { return outcome("replied ", e.request, e.answer); },
            [&](const V::Changed& e) { return outcome("changed ", e.request, e.voters); },
        },
        effect);
}

}  // namespace ddprun::witness
