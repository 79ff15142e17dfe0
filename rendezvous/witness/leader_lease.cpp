// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/witness/leader_lease.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::witness {
namespace {

using namespace std::chrono_literals;

/// The pause after a request without an answer.
constexpr Duration next_try_after = 1s;
/// How long the end of a job is kept for nodes that come back late.
constexpr std::chrono::seconds end_ttl = 24h;

/// Until when this server may lead with a lease that was requested or kept at `asked_at`. This is
/// before the engine ends the lease, even if the clocks of the machines differ.
Instant leads_until(Instant asked_at, Duration ttl) {
    return asked_at + from_seconds(limits::leading_share_of_ttl * in_seconds(ttl));
}

/// None: the request has failed.
template <class Answer>
std::optional<Answer> value_in(const Result<LeaseAnswer>& answer) {
    return answer ? std::optional{std::get<Answer>(*answer)} : std::nullopt;
}

const char* name_of(const LeaseRequest& request) {
    return std::visit(
        Overloaded{
            [](const ReadRecord&) { return "to read"; },
            [](const GrantLease&) { return "for a lease"; },
            [](const Campaign&) { return "to lead"; },
            [](const KeepLease&) { return "to keep the lease"; },
            [](const Revoke&) { return "to revoke"; },
            [](const RecordEnd&) { return "to record an end"; },
            [](const Erase&) { return "to erase"; },
        },
        request);
}

}  // namespace

void LeaderLease::handle(Event event, Instant now, Effects& out) {
    if (std::holds_alternative<Gone>(state_)) return;
    std::visit(
        Overloaded{
            [&](Sought sought) { on_sought(sought.is_first_try, now, out); },
            [&](Answered& answered) { on_answered(std::move(answered), now, out); },
            [&](ServerOpened& opened) { on_opened(std::move(opened), now, out); },
            [&](const SteppedDown& stepped_down) { on_stepped_down(stepped_down, now, out); },
            [&](EndDecided& decided) { on_end_decided(std::move(decided), now, out); },
            [&](const Left& left) { on_left(left.is_job_over, now, out); },
            [&](DeadlinePassed) { on_deadline(now, out); },
        },
        event);
}

void LeaderLease::on_sought(bool is_first_try, Instant now, Effects& out) {
    if (std::holds_alternative<Withdrawing>(state_))
        return out.push_back(NotFound{"an earlier candidacy of this node is being withdrawn"});
    // A candidacy is in progress, whose end answers this event.
    if (!std::holds_alternative<Idle>(state_)) return;
    if (is_first_try && followed_) return out.push_back(Found{*followed_});
    state_ = Reading{};
    ask(ReadRecord{}, now, out);
}

void LeaderLease::on_answered(Answered answered, Instant now, Effects& out) {
    if (!open_ || open_->request != answered.request) return;
    open_.reset();
    if (const auto* leading = std::get_if<Leading>(&state_)) {
        switch (leading->asking) {
            case Asking::to_keep: on_kept(value_in<Kept>(answered.answer), now, out); break;
            case Asking::for_lease_of_end:
                on_lease_of_end(value_in<Grant>(answered.answer), now, out);
                break;
            case Asking::to_record:
                on_recorded(value_in<EndStored>(answered.answer), now, out);
                break;
        }
        return ask_what_is_due(now, out);
    }
    if (std::holds_alternative<Releasing>(state_)) {
        state_ = Gone{};
        return out.push_back(Released{});
    }
    // Even if the engine has not received the revocation, the lease ends by itself.
    if (std::holds_alternative<Withdrawing>(state_)) {
        state_ = Idle{};
        return;
    }
    if (!answered.answer) {
        const auto& failure = answered.answer.error();
        const auto reason = failure.context.empty() ? failure.describe() : failure.context;
        // The request may have succeeded in spite of the error.
        if (const auto* campaigning = std::get_if<Campaigning>(&state_)) {
            const auto candidacy = campaigning->candidacy;
            fail(reason, out);
            return withdraw(candidacy, now, out);
        }
        return fail(reason, out);
    }
    auto& answer = *answered.answer;
    if (std::holds_alternative<Reading>(state_))
        return on_read(std::get<Record>(std::move(answer)), now, out);
    if (std::holds_alternative<Granting>(state_))
        return on_granted(std::get<Grant>(answer), now, out);
    if (std::holds_alternative<Campaigning>(state_))
        return on_campaigned(std::get<Campaigned>(answer), now, out);
}

void LeaderLease::on_read(Record record, Instant now, Effects& out) {
    if (!record.held) {
        state_ = Opening{std::move(record)};
        return out.push_back(OpenServer{});
    }
    if (record.held->leader.nonce != config_.nonce) return follow(record.held->leader, out);
    // It belongs to a candidacy of this process whose answer was lost, or to a leadership that has
    // ended by this machine's clock.
    fail("an earlier candidacy of this node is being withdrawn", out);
    withdraw(*record.held, now, out);
}

void LeaderLease::on_opened(ServerOpened opened, Instant now, Effects& out) {
    auto* opening = std::get_if<Opening>(&state_);
    if (opening == nullptr) return;
    if (!opened.endpoint) return fail(opened.endpoint.error().describe(), out);
    state_ = Granting{std::move(opening->record), std::move(*opened.endpoint), now};
    ask(GrantLease{static_cast<std::int64_t>(in_seconds(config_.ttl))}, now, out);
}

void LeaderLease::on_granted(const Grant& grant, Instant now, Effects& out) {
    const auto granting = std::get<Granting>(state_);
    const auto ttl = std::min(config_.ttl, Duration{std::chrono::seconds{grant.ttl_s}});
    const auto epoch = std::max(granting.record.epoch, known_epoch_) + 1;
    if (epoch == 0) return fail("no epoch is left: give the job another id", out);
    const Candidacy candidacy{{granting.endpoint, config_.nonce, epoch}, grant.lease};
    state_ = Campaigning{
        candidacy,
        ttl,
        leads_until(granting.asked_at, ttl),
        granting.record.epoch > 0 || known_epoch_ > 0};
    ask(Campaign{candidacy, granting.record.epoch_revision}, now, out);
}

void LeaderLease::on_campaigned(const Campaigned& campaign, Instant now, Effects& out) {
    auto campaigning = std::get<Campaigning>(state_);
    if (campaign.is_won && now >= campaigning.until) {
        fail(config_.engine + " was slow", out);
        return withdraw(campaigning.candidacy, now, out);
    }
    // The node was not elected. Its lease has no key, and is left to end by itself.
    if (!campaign.is_won) {
        const auto& held = campaign.record.held;
        // The key is this process's own: the request was repeated at another member after the first
        // one had performed it.
        if (held && held->leader.nonce == config_.nonce) {
            fail("an earlier candidacy of this node is being withdrawn", out);
            return withdraw(*held, now, out);
        }
        if (held) return follow(held->leader, out);
        return fail("another node was elected meanwhile, and is gone", out);
    }
    campaigning.candidacy.revision = campaign.revision;
    const auto epoch = campaigning.candidacy.leader.epoch;
    known_epoch_ = epoch;
    followed_.reset();
    state_ = Leading{
        std::move(campaigning.candidacy),
        campaigning.ttl,
        campaigning.until,
        now + campaigning.ttl / 3};
    out.push_back(Elected{epoch, campaigning.until, campaigning.led_before, campaign.ended});
}

void LeaderLease::on_kept(const std::optional<Kept>& kept, Instant now, Effects& out) {
    auto& leading = std::get<Leading>(state_);
    if (!kept) {
        leading.ask_at = now + next_try_after;
        return;
    }
    if (kept->ttl_s == 0) return depose("its lease in " + config_.engine + " has ended", out);
    const auto ttl = std::min(leading.ttl, Duration{std::chrono::seconds{kept->ttl_s}});
    leading.until = std::max(leading.until, leads_until(leading.asked_at, ttl));
    leading.ask_at = leading.asked_at + leading.ttl / 3;
    out.push_back(Extended{leading.candidacy.leader.epoch, leading.until});
}

void LeaderLease::on_end_decided(EndDecided decided, Instant now, Effects& out) {
    auto* leading = std::get_if<Leading>(&state_);
    if (leading == nullptr || leading->candidacy.leader.epoch != decided.epoch) return;
    leading->end = Unrecorded{decided.number, std::move(decided.ends), now};
    ask_what_is_due(now, out);
}

void LeaderLease::on_lease_of_end(const std::optional<Grant>& grant, Instant now, Effects&) {
    auto& end = std::get<Leading>(state_).end;
    if (!end) return;
    if (grant)
        end->lease = grant->lease;
    else
        end->ask_at = now + next_try_after;
}

/// If there is no valid answer, the request is repeated, which is harmless.
void LeaderLease::on_recorded(const std::optional<EndStored>& stored, Instant now, Effects& out) {
    auto& leading = std::get<Leading>(state_);
    if (!stored) {
        leading.end->ask_at = now + next_try_after;
        return;
    }
    if (!stored->is_stored) return depose("its key in " + config_.engine + " is gone", out);
    // The answer was for an earlier end: one that was decided later has its own number and lease.
    if (leading.end->lease == 0) return;
    const auto number = leading.end->number;
    leading.end.reset();
    out.push_back(Recorded{number});
}

/// One request at a time; extending the lease comes first.
void LeaderLease::ask_what_is_due(Instant now, Effects& out) {
    auto* leading = std::get_if<Leading>(&state_);
    if (leading == nullptr || open_ || now >= leading->until) return;
    if (now >= leading->ask_at) {
        leading->asking = Asking::to_keep;
        leading->asked_at = now;
        return ask(KeepLease{leading->candidacy}, now, out);
    }
    auto& end = leading->end;
    if (!end || now < end->ask_at) return;
    leading->asking = end->lease == 0 ? Asking::for_lease_of_end : Asking::to_record;
    if (end->lease == 0)
        ask(GrantLease{end_ttl.count()}, now, out);
    else
        ask(RecordEnd{leading->candidacy, end->ends, end->lease}, now, out);
}

void LeaderLease::depose(std::string reason, Effects& out) {
    state_ = Idle{};
    out.push_back(Deposed{std::move(reason)});
}

void LeaderLease::on_stepped_down(const SteppedDown& event, Instant now, Effects& out) {
    known_epoch_ = std::max(known_epoch_, event.known_epoch);
    const auto* leading = std::get_if<Leading>(&state_);
    if (leading == nullptr || leading->candidacy.leader.epoch != event.epoch) return;
    const auto candidacy = leading->candidacy;
    withdraw(candidacy, now, out);
}

void LeaderLease::on_left(bool is_job_over, Instant now, Effects& out) {
    // The answer to the revocation is the last one that is awaited.
    if (std::holds_alternative<Withdrawing>(state_)) {
        state_ = Releasing{};
        return;
    }
    // The candidacy may still be won. In etcd it cannot once its lease is revoked. A Lease of
    // Kubernetes may be written after the revocation has read it: it then has a holder that is
    // gone, and expires as that of a lost leader.
    if (const auto* campaigning = std::get_if<Campaigning>(&state_)) {
        const Revoke last{campaigning->candidacy};
        state_ = Releasing{};
        return ask(last, now, out);
    }
    const auto* leading = std::get_if<Leading>(&state_);
    if (leading == nullptr) {
        state_ = Gone{};
        return out.push_back(Released{});
    }
    const auto last = is_job_over ? LeaseRequest{Erase{leading->candidacy}}
                                  : LeaseRequest{Revoke{leading->candidacy}};
    state_ = Releasing{};
    ask(last, now, out);
}

void LeaderLease::on_deadline(Instant now, Effects& out) {
    if (open_ && now >= open_->ends_at)
        on_answered(
            {open_->request, Failure{system_code(ETIMEDOUT), config_.engine + " does not answer"}},
            now,
            out);
    auto* leading = std::get_if<Leading>(&state_);
    if (leading == nullptr) return;
    if (now >= leading->until) {
        open_.reset();
        state_ = Idle{};
        return;
    }
    ask_what_is_due(now, out);
}

std::optional<Instant> LeaderLease::next_deadline() const {
    std::optional<Instant> next;
    if (open_) next = open_->ends_at;
    const auto* leading = std::get_if<Leading>(&state_);
    if (leading == nullptr) return next;
    next = earliest(next, leading->until);
    if (open_) return next;
    if (leading->end) next = earliest(next, leading->end->ask_at);
    return earliest(next, leading->ask_at);
}

void LeaderLease::follow(const Leader& leader, Effects& out) {
    state_ = Idle{};
    known_epoch_ = std::max(known_epoch_, leader.epoch);
    followed_ = leader;
    out.push_back(Found{leader});
}

void LeaderLease::fail(std::string reason, Effects& out) {
    state_ = Idle{};
    out.push_back(NotFound{std::move(reason)});
}

void LeaderLease::withdraw(const Candidacy& candidacy, Instant now, Effects& out) {
    state_ = Withdrawing{};
    ask(Revoke{candidacy}, now, out);
}

void LeaderLease::ask(LeaseRequest what, Instant now, Effects& out) {
    open_ = Open{++last_request_, now + limits::etcd_answer_timeout};
    out.push_back(Ask{last_request_, std::move(what)});
}

std::string describe(const LeaderLease::Event& event) {
    using L = LeaderLease;
    return std::visit(
        Overloaded{
            [](L::Sought) { return std::string{"sought"}; },
            [](const L::Answered& e) {
                return "answered " + std::to_string(e.request) + ": " +
                       (e.answer ? "answer" : e.answer.error().describe());
            },
            [](const L::ServerOpened& e) {
                return "server opened: " +
                       (e.endpoint ? *e.endpoint : e.endpoint.error().describe());
            },
            [](const L::SteppedDown& e) {
                return "stepped down, epoch " + std::to_string(e.epoch);
            },
            [](const L::EndDecided& e) {
                return "end decided, epoch " + std::to_string(e.epoch) + " number " +
                       std::to_string(e.number);
            },
            [](const L::Left& e) { return std::string{e.is_job_over ? "job over" : "left"}; },
            [](L::DeadlinePassed) { return std::string{"deadline passed"}; },
        },
        event);
}

std::string describe(const LeaderLease::Effect& effect) {
    using L = LeaderLease;
    return std::visit(
        Overloaded{
            [](const L::Ask& e) {
                return "ask " + std::to_string(e.request) + " " + name_of(e.what);
            },
            [](L::OpenServer) { return std::string{"open server"}; },
            [](const L::Found& e) {
                return "found " + e.leader.endpoint + " epoch " + std::to_string(e.leader.epoch);
            },
            [](const L::Elected& e) { return "elected, epoch " + std::to_string(e.epoch); },
            [](const L::Extended& e) { return "extended, epoch " + std::to_string(e.epoch); },
            [](const L::Recorded& e) { return "recorded " + std::to_string(e.number); },
            [](const L::Deposed& e) { return "deposed: " + e.reason; },
            [](const L::NotFound& e) { return "not found: " + e.reason; },
            [](L::Released) { return std::string{"released"}; },
        },
        effect);
}

}  // namespace ddprun::witness
