// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/voters/proposer.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun::voters {
namespace {

/// Voters of the sets that one operation may meet.
constexpr std::size_t most_asked = 8 * limits::max_voters;
/// How long a leader that steps down waits for voters that are not needed for a majority.
constexpr Duration last_votes_timeout = std::chrono::milliseconds{250};

template <class Asked>
auto find(Asked& asked, const Nonce& voter) {
    return std::find_if(
        asked.begin(), asked.end(), [&](const auto& one) { return one.voter.nonce == voter; });
}

const Ballot& ballot_of(const Answer& answer) {
    return std::visit([](const auto& value) -> const Ballot& { return value.ballot; }, answer);
}

const char* name_of(Proposer::Reason reason) {
    switch (reason) {
        case Proposer::Reason::busy: return "busy";
        case Proposer::Reason::bad_change: return "bad change";
        case Proposer::Reason::lost_race: return "lost race";
        case Proposer::Reason::no_majority: return "no majority";
        case Proposer::Reason::no_record: return "no record";
        case Proposer::Reason::no_ballot_left: return "no ballot left";
    }
    return "";
}

}  // namespace

void Proposer::handle(Event event, Instant now, Effects& out) {
    std::visit(
        Overloaded{
            [&](Wanted& wanted) { on_wanted(std::move(wanted), now, out); },
            [&](Answered& answered) {
                on_answered(answered.voter, std::move(answered.answer), now, out);
            },
            [&](const Unreached& unreached) {
                on_answered(unreached.voter, std::nullopt, now, out);
            },
            [&](const Known& known) { learn(known.ballot, known.voters); },
            [&](DeadlinePassed) { on_deadline(now, out); },
        },
        event);
}

void Proposer::on_wanted(Wanted wanted, Instant now, Effects& out) {
    if (!std::holds_alternative<Idle>(state_))
        return out.push_back(Failed{wanted.operation, Reason::busy, false});
    if (!problem_of(wanted.change).empty())
        return out.push_back(Failed{wanted.operation, Reason::bad_change, false});
    prepare({wanted.operation, std::move(wanted.change), now + limits::vote_timeout}, out);
}

void Proposer::prepare(Operation operation, Effects& out) {
    if (counter_ >= limits::max_voted_number) {
        state_ = Idle{};
        return out.push_back(
            Failed{operation.number, Reason::no_ballot_left, operation.has_sent_record});
    }
    operation.ballot = {++counter_, config_.process};
    auto& state = state_.emplace<Preparing>(Preparing{std::move(operation)});
    ask(state, config_.voters, out);
    // New voters are asked before they are in a record: once they are, nothing can be chosen
    // without them.
    if (const auto* wanted = std::get_if<ChangeVoters>(&state.operation.change))
        ask(state, wanted->voters, out);
}

/// Those that were not asked yet.
void Proposer::ask(Preparing& state, const std::vector<VoterPlace>& voters, Effects& out) const {
    for (const auto& voter : voters) {
        if (find(state.asked, voter.nonce) != state.asked.end()) continue;
        if (state.asked.size() >= most_asked) return;
        state.asked.push_back({voter});
        out.push_back(Send{
            voter, Prepare{config_.job, config_.lineage, voter.nonce, state.operation.ballot}});
    }
}

/// Counts an answer once, and only one to what was sent in this phase. None: there will be no
/// answer.
void Proposer::on_answered(
    const Nonce& voter, std::optional<Answer> answer, Instant now, Effects& out) {
    auto* const preparing = std::get_if<Preparing>(&state_);
    auto* const accepting = std::get_if<Accepting>(&state_);
    if (preparing == nullptr && accepting == nullptr) return;
    auto& all = preparing != nullptr ? preparing->asked : accepting->asked;
    const auto& own = (preparing != nullptr ? preparing->operation : accepting->operation).ballot;
    const auto asked = find(all, voter);
    if (asked == all.end() || asked->reply != Reply::awaited) return;
    if (answer && ballot_of(*answer) != own) return;
    if (!answer || std::holds_alternative<Unknown>(*answer)) {
        asked->reply = Reply::none;
    } else if (const auto* refused = std::get_if<Refused>(&*answer)) {
        counter_ = std::max(counter_, refused->promised.counter);
        asked->reply = Reply::refused;
    } else if (auto* promise = std::get_if<Promise>(&*answer)) {
        if (preparing == nullptr) return;
        asked->vote = std::move(promise->vote);
        asked->reply = Reply::given;
        if (asked->vote) learn(asked->vote->ballot, asked->vote->record.voters);
    } else {
        if (accepting == nullptr) return;
        asked->reply = Reply::given;
    }
    if (preparing != nullptr)
        consider_promises(now, out);
    else
        consider_acceptances(now, out);
}

void Proposer::ask(Preparing& state, const VoterSet& set, Effects& out) const {
    ask(state, set.voters, out);
    ask(state, set.former, out);
}

void Proposer::learn(const Ballot& ballot, const VoterSet& voters) {
    if (ballot < voters_ballot_) return;
    voters_ballot_ = ballot;
    config_.voters = voters;
}

void Proposer::consider_promises(Instant now, Effects& out) {
    auto& state = std::get<Preparing>(state_);
    // The value of the highest ballot may be chosen; no other one can be.
    const Vote* found = nullptr;
    for (const auto& asked : state.asked)
        if (asked.vote && (found == nullptr || asked.vote->ballot > found->ballot))
            found = &*asked.vote;
    if (found != nullptr) ask(state, found->record.voters, out);
    const auto& set = found == nullptr ? config_.voters : found->record.voters;
    const auto* const wanted = std::get_if<ChangeVoters>(&state.operation.change);
    const auto is_quorum = [&](auto is_counted) {
        return set.has_quorum(is_counted) &&
               (wanted == nullptr || VoterSet::has_majority(wanted->voters, is_counted));
    };
    const auto has = [&](Reply reply, const Nonce& voter) {
        const auto asked = find(state.asked, voter);
        return asked != state.asked.end() && asked->reply == reply;
    };
    if (is_quorum([&](const Nonce& voter) { return has(Reply::given, voter); })) {
        if (found != nullptr) return apply(*found, now, out);
        // A quorum of outdated voters need not have a record; voters whose answer is awaited may
        // have one.
        if (!is_any(state.asked, Reply::awaited)) fail(Reason::no_record, out);
        return;
    }
    const bool is_possible = is_quorum(
        [&](const Nonce& voter) { return has(Reply::given, voter) || has(Reply::awaited, voter); });
    // A voter whose answer is awaited may know newer voters. A voter that refuses knows them too:
    // the next ballot will get its promise.
    if (!is_possible &&
        (is_any(state.asked, Reply::refused) || !is_any(state.asked, Reply::awaited)))
        fail_without_quorum(state.asked, out);
}

void Proposer::apply(const Vote& found, Instant now, Effects& out) {
    auto& state = std::get<Preparing>(state_);
    auto& operation = state.operation;
    const auto& record = found.record;
    // Each voter that has this renewal got it after its leader sent it, so every age is one that it
    // has at least.
    Duration age{};
    for (const auto& asked : state.asked)
        if (asked.vote && is_same_renewal(asked.vote->record, record))
            age = std::max(age, asked.vote->age);
    const bool is_chosen = record.voters.has_quorum([&](const Nonce& voter) {
        const auto asked = find(state.asked, voter);
        return asked != state.asked.end() && asked->vote && asked->vote->ballot == found.ballot;
    });
    const bool are_voters_chosen = is_chosen || operation.chosen == record.voters;
    auto verdict = judge(
        operation.change,
        {record, age, are_voters_chosen},
        config_.process,
        operation.ballot.counter);
    const auto number = operation.number;
    if (!verdict.next && is_chosen) {
        Decided decided{number, verdict.outcome, record, found.ballot, age, now};
        state_ = Idle{};
        return out.push_back(std::move(decided));
    }
    // What was found may not be chosen yet, and must be before it is reported.
    if (!verdict.next) verdict.next = record;
    const bool is_renewed = !is_same_renewal(*verdict.next, record);
    operation.has_sent_record = true;
    Accepting next{
        std::move(operation),
        std::move(*verdict.next),
        verdict.outcome,
        verdict.is_step,
        is_renewed ? Duration::zero() : age,
        now};
    for (const auto* places : {&next.record.voters.voters, &next.record.voters.former})
        for (const auto& voter : *places) {
            if (find(next.asked, voter.nonce) != next.asked.end()) continue;
            next.asked.push_back({voter});
            out.push_back(
                Send{voter, Accept{config_.job, voter.nonce, next.operation.ballot, next.record}});
        }
    state_ = std::move(next);
}

void Proposer::consider_acceptances(Instant now, Effects& out) {
    auto& state = std::get<Accepting>(state_);
    const auto& set = state.record.voters;
    const auto is_quorum = [&](auto has_reply) {
        return set.has_quorum(
            [&](const Nonce& voter) { return has_reply(find(state.asked, voter)->reply); });
    };
    if (!is_quorum([](Reply reply) { return reply == Reply::given; })) {
        if (!is_quorum(
                [](Reply reply) { return reply == Reply::given || reply == Reply::awaited; }))
            fail_without_quorum(state.asked, out);
        return;
    }
    auto& operation = state.operation;
    learn(operation.ballot, set);
    // A process that has stepped down may end at once, and what it has sent with it. Each voter
    // should have its last record.
    if (std::holds_alternative<StepDown>(operation.change) && is_any(state.asked, Reply::awaited)) {
        if (!std::exchange(state.is_chosen, true))
            operation.ends_at = std::min(operation.ends_at, now + last_votes_timeout);
        if (now < operation.ends_at) return;
    }
    decide(out);
}

void Proposer::decide(Effects& out) {
    auto& state = std::get<Accepting>(state_);
    auto& operation = state.operation;
    if (state.is_step) {
        operation.chosen = state.record.voters;
        return prepare(std::move(operation), out);
    }
    Decided decided{
        operation.number,
        state.outcome,
        std::move(state.record),
        operation.ballot,
        state.age,
        state.sent_at};
    state_ = Idle{};
    out.push_back(std::move(decided));
}

void Proposer::on_deadline(Instant now, Effects& out) {
    const auto ends_at = next_deadline();
    if (!ends_at || now < *ends_at) return;
    const auto* const preparing = std::get_if<Preparing>(&state_);
    if (preparing == nullptr && std::get<Accepting>(state_).is_chosen) return decide(out);
    fail_without_quorum(
        preparing != nullptr ? preparing->asked : std::get<Accepting>(state_).asked, out);
}

std::optional<Instant> Proposer::next_deadline() const {
    if (const auto* preparing = std::get_if<Preparing>(&state_))
        return preparing->operation.ends_at;
    if (const auto* accepting = std::get_if<Accepting>(&state_))
        return accepting->operation.ends_at;
    return std::nullopt;
}

bool Proposer::is_any(const AskedVoters& asked, Reply reply) {
    return std::any_of(
        asked.begin(), asked.end(), [&](const Asked& one) { return one.reply == reply; });
}

void Proposer::fail_without_quorum(const AskedVoters& asked, Effects& out) {
    fail(is_any(asked, Reply::refused) ? Reason::lost_race : Reason::no_majority, out);
}

void Proposer::fail(Reason reason, Effects& out) {
    const auto* const preparing = std::get_if<Preparing>(&state_);
    const auto& operation =
        preparing != nullptr ? preparing->operation : std::get<Accepting>(state_).operation;
    const Failed failed{operation.number, reason, operation.has_sent_record};
    state_ = Idle{};
    out.push_back(failed);
}

std::string describe(const Proposer::Event& event) {
    using P = Proposer;
    return std::visit(
        Overloaded{
            [](const P::Wanted& e) {
                return "wanted " + std::to_string(e.operation) + ": " + describe(e.change);
            },
            [](const P::Answered& e) {
                return "answered by " + e.voter.to_short_string() + ": " + describe(e.answer);
            },
            [](const P::Unreached& e) { return "unreached " + e.voter.to_short_string(); },
            [](const P::Known& e) { return "known in " + describe(e.ballot); },
            [](P::DeadlinePassed) { return std::string{"deadline passed"}; },
        },
        event);
}

std::string describe(const Proposer::Effect& effect) {
    using P = Proposer;
    return std::visit(
        Overloaded{
            [](const P::Send& e) {
                return "send to " + e.to.nonce.to_short_string() + ": " + describe(e.request);
            },
            [](const P::Decided& e) {
                return "decided " + std::to_string(e.operation) + ": " +
                       std::string{name_of(e.outcome)} + ", " + describe(e.record);
            },
            [](const P::Failed& e) {
                return "failed " + std::to_string(e.operation) + ": " + name_of(e.reason) +
                       (e.may_be_done ? ", may be done" : "");
            },
        },
        effect);
}

}  // namespace ddprun::voters
