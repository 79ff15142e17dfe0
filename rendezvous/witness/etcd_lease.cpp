// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/witness/etcd_lease.hpp"

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
/// before etcd ends the lease, even if the clocks of the machines differ.
Instant leads_until(Instant asked_at, Duration ttl) {
    return asked_at + from_seconds(limits::leading_share_of_ttl * in_seconds(ttl));
}

}  // namespace

void EtcdLease::handle(Event event, Instant now, Effects& out) {
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

void EtcdLease::on_sought(bool is_first_try, Instant now, Effects& out) {
    if (std::holds_alternative<Withdrawing>(state_))
        return out.push_back(NotFound{"an earlier candidacy of this node is being withdrawn"});
    // A candidacy is in progress, whose end answers this event.
    if (!std::holds_alternative<Idle>(state_)) return;
    if (is_first_try && followed_) return out.push_back(Found{*followed_});
    state_ = Reading{};
    ask(etcd::read(config_.keys), now, out);
}

void EtcdLease::on_answered(Answered answered, Instant now, Effects& out) {
    if (!open_ || open_->request != answered.request) return;
    open_.reset();
    if (const auto* leading = std::get_if<Leading>(&state_)) {
        switch (leading->asking) {
            case Asking::to_keep: on_kept(answered.body, now, out); break;
            case Asking::for_lease_of_end: on_lease_of_end(answered.body, now, out); break;
            case Asking::to_record: on_recorded(answered.body, now, out); break;
        }
        return ask_what_is_due(now, out);
    }
    if (std::holds_alternative<Releasing>(state_)) {
        state_ = Gone{};
        return out.push_back(Released{});
    }
    // Even if etcd has not received the revocation, the lease ends by itself.
    if (std::holds_alternative<Withdrawing>(state_)) {
        state_ = Idle{};
        return;
    }
    if (!answered.body) {
        const auto reason = answered.body.error().context.empty() ? answered.body.error().describe()
                                                                  : answered.body.error().context;
        // The request may have succeeded in spite of the error.
        if (const auto* campaigning = std::get_if<Campaigning>(&state_)) {
            const auto lease = campaigning->lease;
            fail(reason, out);
            return withdraw(lease, now, out);
        }
        return fail(reason, out);
    }
    const auto body = std::move(*answered.body);
    if (std::holds_alternative<Reading>(state_)) return on_read(body, now, out);
    if (std::holds_alternative<Granting>(state_)) return on_granted(body, now, out);
    if (std::holds_alternative<Campaigning>(state_)) return on_campaigned(body, now, out);
}

void EtcdLease::on_read(const std::string& body, Instant now, Effects& out) {
    auto record = etcd::read_record(body);
    if (!record) return fail(record.error().context, out);
    if (!record->held) {
        state_ = Opening{std::move(*record)};
        return out.push_back(OpenServer{});
    }
    if (record->held->leader.nonce != config_.nonce) return follow(record->held->leader, out);
    // The key belongs to a candidacy of this process whose answer was lost, or to a leadership that
    // has ended by this machine's clock.
    fail("an earlier candidacy of this node is being withdrawn", out);
    withdraw(record->held->lease, now, out);
}

void EtcdLease::on_opened(ServerOpened opened, Instant now, Effects& out) {
    auto* opening = std::get_if<Opening>(&state_);
    if (opening == nullptr) return;
    if (!opened.endpoint) return fail(opened.endpoint.error().describe(), out);
    state_ = Granting{std::move(opening->record), std::move(*opened.endpoint), now};
    ask(etcd::grant(static_cast<std::int64_t>(in_seconds(config_.ttl))), now, out);
}

void EtcdLease::on_granted(const std::string& body, Instant now, Effects& out) {
    const auto granting = std::get<Granting>(state_);
    const auto grant = etcd::read_grant(body);
    if (!grant) return fail(grant.error().context, out);
    const auto ttl = std::min(config_.ttl, Duration{std::chrono::seconds{grant->ttl_s}});
    const auto epoch = std::max(granting.record.epoch, known_epoch_) + 1;
    if (epoch == 0) return fail("no epoch is left: give the job another id", out);
    const etcd::Leader leader{granting.endpoint, config_.nonce, epoch};
    state_ = Campaigning{
        leader,
        grant->lease,
        ttl,
        leads_until(granting.asked_at, ttl),
        granting.record.epoch > 0 || known_epoch_ > 0};
    ask(etcd::campaign(config_.keys, leader, granting.record.epoch_revision, grant->lease),
        now,
        out);
}

void EtcdLease::on_campaigned(const std::string& body, Instant now, Effects& out) {
    const auto campaigning = std::get<Campaigning>(state_);
    const auto campaign = etcd::read_campaign(body);
    if (!campaign || (campaign->is_won && now >= campaigning.until)) {
        fail(campaign ? "etcd was slow" : campaign.error().context, out);
        return withdraw(campaigning.lease, now, out);
    }
    // The node was not elected. Its lease has no key, and is left to end by itself.
    if (!campaign->is_won) {
        const auto& held = campaign->record.held;
        // The key is this process's own: the request was repeated at another member after the first
        // one had performed it.
        if (held && held->leader.nonce == config_.nonce) {
            fail("an earlier candidacy of this node is being withdrawn", out);
            return withdraw(held->lease, now, out);
        }
        if (held) return follow(held->leader, out);
        return fail("another node was elected meanwhile, and is gone", out);
    }
    const auto epoch = campaigning.leader.epoch;
    known_epoch_ = epoch;
    followed_.reset();
    state_ = Leading{
        epoch,
        campaigning.lease,
        campaign->revision,
        campaigning.ttl,
        campaigning.until,
        now + campaigning.ttl / 3};
    out.push_back(Elected{epoch, campaigning.until, campaigning.led_before, campaign->ended});
}

void EtcdLease::on_kept(const Result<std::string>& body, Instant now, Effects& out) {
    auto& leading = std::get<Leading>(state_);
    const auto ttl_s = body ? etcd::read_keep_alive(*body) : Result<std::int64_t>{body.error()};
    if (!ttl_s) {
        leading.ask_at = now + next_try_after;
        return;
    }
    if (*ttl_s == 0) return depose("its lease in etcd has ended", out);
    const auto ttl = std::min(leading.ttl, Duration{std::chrono::seconds{*ttl_s}});
    leading.until = std::max(leading.until, leads_until(leading.asked_at, ttl));
    leading.ask_at = leading.asked_at + leading.ttl / 3;
    out.push_back(Extended{leading.epoch, leading.until});
}

void EtcdLease::on_end_decided(EndDecided decided, Instant now, Effects& out) {
    auto* leading = std::get_if<Leading>(&state_);
    if (leading == nullptr || leading->epoch != decided.epoch) return;
    leading->end = Unrecorded{decided.number, std::move(decided.ends), now};
    ask_what_is_due(now, out);
}

void EtcdLease::on_lease_of_end(const Result<std::string>& body, Instant now, Effects&) {
    auto& end = std::get<Leading>(state_).end;
    const auto grant = body ? etcd::read_grant(*body) : Result<etcd::Grant>{body.error()};
    if (!end) return;
    if (grant)
        end->lease = grant->lease;
    else
        end->ask_at = now + next_try_after;
}

/// If there is no valid answer, the request is repeated, which is harmless.
void EtcdLease::on_recorded(const Result<std::string>& body, Instant now, Effects& out) {
    auto& leading = std::get<Leading>(state_);
    const auto is_recorded = body ? etcd::read_recorded(*body) : Result<bool>{body.error()};
    if (!is_recorded) {
        leading.end->ask_at = now + next_try_after;
        return;
    }
    if (!*is_recorded) return depose("its key in etcd is gone", out);
    // The answer was for an earlier end: one that was decided later has its own number and lease.
    if (leading.end->lease == 0) return;
    const auto number = leading.end->number;
    leading.end.reset();
    out.push_back(Recorded{number});
}

/// One request at a time; extending the lease comes first.
void EtcdLease::ask_what_is_due(Instant now, Effects& out) {
    auto* leading = std::get_if<Leading>(&state_);
    if (leading == nullptr || open_ || now >= leading->until) return;
    if (now >= leading->ask_at) {
        leading->asking = Asking::to_keep;
        leading->asked_at = now;
        return ask(etcd::keep_alive(leading->lease), now, out);
    }
    auto& end = leading->end;
    if (!end || now < end->ask_at) return;
    leading->asking = end->lease == 0 ? Asking::for_lease_of_end : Asking::to_record;
    ask(end->lease == 0 ? etcd::grant(end_ttl.count())
                        : etcd::record_end(config_.keys, end->ends, leading->revision, end->lease),
        now,
        out);
}

void EtcdLease::depose(std::string reason, Effects& out) {
    state_ = Idle{};
    out.push_back(Deposed{std::move(reason)});
}

void EtcdLease::on_stepped_down(const SteppedDown& event, Instant now, Effects& out) {
    known_epoch_ = std::max(known_epoch_, event.known_epoch);
    const auto* leading = std::get_if<Leading>(&state_);
    if (leading != nullptr && leading->epoch == event.epoch) withdraw(leading->lease, now, out);
}

void EtcdLease::on_left(bool is_job_over, Instant now, Effects& out) {
    // The answer to the revocation is the last one that is awaited.
    if (std::holds_alternative<Withdrawing>(state_)) {
        state_ = Releasing{};
        return;
    }
    // The key may still be won with this lease, so the lease is revoked.
    if (const auto* campaigning = std::get_if<Campaigning>(&state_)) {
        const auto lease = campaigning->lease;
        state_ = Releasing{};
        return ask(etcd::revoke(lease), now, out);
    }
    const auto* leading = std::get_if<Leading>(&state_);
    if (leading == nullptr) {
        state_ = Gone{};
        return out.push_back(Released{});
    }
    const auto last =
        is_job_over ? etcd::erase(config_.keys, leading->revision) : etcd::revoke(leading->lease);
    state_ = Releasing{};
    ask(last, now, out);
}

void EtcdLease::on_deadline(Instant now, Effects& out) {
    if (open_ && now >= open_->ends_at)
        on_answered(
            {open_->request, Failure{system_code(ETIMEDOUT), "etcd does not answer"}}, now, out);
    auto* leading = std::get_if<Leading>(&state_);
    if (leading == nullptr) return;
    if (now >= leading->until) {
        open_.reset();
        state_ = Idle{};
        return;
    }
    ask_what_is_due(now, out);
}

std::optional<Instant> EtcdLease::next_deadline() const {
    std::optional<Instant> next;
    if (open_) next = open_->ends_at;
    const auto* leading = std::get_if<Leading>(&state_);
    if (leading == nullptr) return next;
    next = earliest(next, leading->until);
    if (open_) return next;
    if (leading->end) next = earliest(next, leading->end->ask_at);
    return earliest(next, leading->ask_at);
}

void EtcdLease::follow(const etcd::Leader& leader, Effects& out) {
    state_ = Idle{};
    known_epoch_ = std::max(known_epoch_, leader.epoch);
    followed_ = leader;
    out.push_back(Found{leader});
}

void EtcdLease::fail(std::string reason, Effects& out) {
    state_ = Idle{};
    out.push_back(NotFound{std::move(reason)});
}

void EtcdLease::withdraw(std::int64_t lease, Instant now, Effects& out) {
    state_ = Withdrawing{};
    ask(etcd::revoke(lease), now, out);
}

void EtcdLease::ask(etcd::Request what, Instant now, Effects& out) {
    open_ = Open{++last_request_, now + limits::etcd_answer_timeout};
    out.push_back(Ask{last_request_, std::move(what)});
}

std::string describe(const EtcdLease::Event& event) {
    using L = EtcdLease;
    return std::visit(
        Overloaded{
            [](L::Sought) { return std::string{"sought"}; },
            [](const L::Answered& e) {
                return "answered " + std::to_string(e.request) + ": " +
                       (e.body ? *e.body : e.body.error().describe());
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

std::string describe(const EtcdLease::Effect& effect) {
    using L = EtcdLease;
    return std::visit(
        Overloaded{
            [](const L::Ask& e) { return "ask " + std::to_string(e.request) + " " + e.what.path; },
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
