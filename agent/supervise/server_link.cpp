// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/server_link.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <utility>

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;

// Attempts follow each other quickly while workers depend on the server, and at the start of a job,
// when the server is often about to appear.
constexpr Duration shortest_eager_pause = 100ms;
constexpr Duration longest_eager_pause = 200ms;
constexpr Duration eager_for = 30s;
constexpr Duration longest_pause = 5s;
constexpr Duration first_note_after = 3s;
/// The first interval between notes; later ones equal the time waited so far, so that the log stays
/// short.
constexpr Duration shortest_note_interval = 10s;
constexpr std::size_t silent_after_unanswered = 3;
/// If the server is silent for long, only the latest unanswered heartbeats are kept.
constexpr std::size_t most_unanswered = 100;

std::string link_field(int link) {
    return "link=" + std::to_string(link);
}

Duration share_of(Duration lease) {
    return from_seconds(limits::fence_share_of_lease * in_seconds(lease));
}

}  // namespace

Instant ServerLink::Membership::valid_until() const {
    return acknowledged_at + share_of(welcome.lease);
}

ServerLink::ServerLink(Config config, Random& random)
    : config_(std::move(config)),
      random_(random),
      backoff_(longest_eager_pause, longest_pause) {}

void ServerLink::handle(Event event, Instant now, std::vector<Effect>& out) {
    std::visit(
        Overloaded{
            [&](ConnectRequested) {
                disconnect(out);
                membership_.reset();
                begin_outage(now);
                note_later(now);
                connect(now, out);
            },
            [&](LinkOpened& opened) { on_opened(std::move(opened), out); },
            [&](LinkClosed& closed) {
                if (is_trying(closed.link)) return on_attempt_failed(std::move(closed), now, out);
                if (is_current(closed.link)) on_closed(std::move(closed), now, out);
            },
            [&](ConnectRefused& refused) {
                if (std::holds_alternative<Trying>(attempt_)) attempt_ = NoAttempt{};
                out.push_back(Rejected{std::move(refused.reason)});
            },
            [&](GreetingMade& made) {
                require(wants_greeting(), "a connection is greeted once");
                link_->stage = Greeted{now};
                out.push_back(Send{link_->id, std::move(made.message)});
            },
            [&](control::Welcome& welcome) { on_welcome(std::move(welcome), now, out); },
            [&](control::Resumed) { on_resumed(now, out); },
            [&](control::Refused& refused) { on_refused(std::move(refused), now, out); },
            [&](const control::HeartbeatAck& ack) { on_heartbeat_ack(ack.seq, out); },
            [&](SuccessionChanged changed) {
                if (membership_) membership_->welcome.hosted = !changed.can_others_follow;
            },
            [&](WorkersStarted) { has_workers_ = true; },
            [&](WorkersEnded) { has_workers_ = false; },
            [&](ReconnectRequested) {
                disconnect(out);
                begin_outage(now);
                attempt_ = Pausing{now + pause(now)};
            },
            [&](DisconnectRequested) { disconnect(out); },
            [&](ResultAwaited) { awaits_result_ = true; },
            [&](TimedOut) { on_timed_out(now, out); },
            [&](DeadlinePassed) { on_deadline(now, out); },
        },
        event);
    check();
}

// ---- attempts -----------------------------------------------------------------------------------

void ServerLink::connect(Instant now, std::vector<Effect>& out) {
    const int link = ++last_link_;
    attempt_ = Trying{link};
    Duration unanswered_for{};
    if (outage_)
        unanswered_for = now - std::max(outage_->since, outage_->answered_at.value_or(Instant{}));
    out.push_back(Connect{link, !was_welcomed_, unanswered_for});
}

void ServerLink::on_attempt_failed(LinkClosed closed, Instant now, std::vector<Effect>& out) {
    attempt_ = Pausing{now + pause(now)};
    if (link_) return;
    last_error_ = {closed.error, std::move(closed.reason)};
    auto& outage = begin_outage(now);
    outage.refusal.reset();
    if (is_distrusted(now)) return out.push_back(Rejected{last_error_.reason, last_error_.error});
    // Only a server inside a `ddprun` never comes back after its process has ended.
    if (last_error_.error != ConnectError::refused || !membership_ ||
        !membership_->welcome.hosted) {
        outage.unserved_since.reset();
        return;
    }
    if (!outage.unserved_since) outage.unserved_since = now;
    if (now - *outage.unserved_since < limits::refused_is_gone_after) return;
    out.push_back(ServerGone{with_last_error("the ddprun that hosts the rendezvous is gone")});
}

/// An error about the secret has no effect until it has persisted for some time: a single answer
/// may be forged, or come from another job's server that is about to end. For a node that was ever
/// welcomed, the error counts as a missing server.
bool ServerLink::is_distrusted(Instant now) {
    auto& since = outage_->distrusted_since;
    const bool is_about_secret = last_error_.error == ConnectError::wrong_secret ||
                                 last_error_.error == ConnectError::not_encrypted ||
                                 last_error_.error == ConnectError::needs_secret;
    if (!is_about_secret || was_welcomed_) {
        since.reset();
        return false;
    }
    if (!since) since = now;
    return now >= *since + limits::secret_refused_timeout;
}

Duration ServerLink::pause(Instant now) {
    const bool is_early = !outage_ || now - outage_->since < eager_for;
    if (!has_workers_ && !is_early) return backoff_.next(random_);
    std::uniform_int_distribution<Duration::rep> eager_pause(
        shortest_eager_pause.count(), longest_eager_pause.count());
    return Duration{eager_pause(random_)};
}

// ---- the connection -----------------------------------------------------------------------------

void ServerLink::on_opened(LinkOpened opened, std::vector<Effect>& out) {
    if (!is_trying(opened.link)) return;
    attempt_ = NoAttempt{};
    if (link_) out.push_back(CloseLink{link_->id});
    link_ = Link{opened.link, std::move(opened.socket_addr), opened.version};
    if (outage_) outage_->unserved_since.reset();
}

void ServerLink::on_closed(LinkClosed closed, Instant now, std::vector<Effect>& out) {
    const bool was_admitted = is_admitted();
    if (greeted() != nullptr && !membership_) out.push_back(JoinUnanswered{});
    link_.reset();
    last_error_ = {closed.error, closed.reason};
    if (awaits_result_) return out.push_back(Ended{});
    auto& outage = begin_outage(now);
    outage.refusal.reset();
    note_later(now);
    if (was_admitted) {
        outage.is_noted = true;
        out.push_back(NoteServerLost{std::move(closed.reason)});
    }
    if (std::holds_alternative<Trying>(attempt_)) return;
    if (was_admitted)
        connect(now, out);
    else
        attempt_ = Pausing{now + pause(now)};
}

void ServerLink::disconnect(std::vector<Effect>& out) {
    if (link_) out.push_back(CloseLink{link_->id});
    if (const auto* trying = std::get_if<Trying>(&attempt_)) out.push_back(CloseLink{trying->link});
    link_.reset();
    attempt_ = NoAttempt{};
}

// ---- what the server answers --------------------------------------------------------------------

void ServerLink::on_welcome(control::Welcome welcome, Instant now, std::vector<Effect>& out) {
    if (greeted() == nullptr) return out.push_back(FoundStale{"welcome"});
    membership_ = Membership{std::move(welcome), greeted()->at};
    was_welcomed_ = true;
    admit(now, out);
}

void ServerLink::on_resumed(Instant now, std::vector<Effect>& out) {
    if (greeted() == nullptr || !membership_) return out.push_back(FoundStale{"resumed"});
    membership_->acknowledged_at = greeted()->at;
    admit(now, out);
}

void ServerLink::admit(Instant now, std::vector<Effect>& out) {
    Admitted admitted;
    if (config_.has_lease) admitted.heartbeat_at = now + limits::heartbeat_interval;
    link_->stage = std::move(admitted);
    backoff_.reset();
    if (outage_ && outage_->is_noted) out.push_back(NoteServerBack{});
    outage_.reset();
}

void ServerLink::on_refused(control::Refused refused, Instant now, std::vector<Effect>& out) {
    if (!refused.retry) return out.push_back(Rejected{std::move(refused.reason)});
    disconnect(out);
    auto& outage = begin_outage(now);
    outage.refusal = refused.reason;
    outage.answered_at = now;
    attempt_ = Pausing{now + *refused.retry};
    if (std::exchange(outage.noted_refusal, refused.reason) == refused.reason) return;
    out.push_back(NoteStandby{std::move(refused.reason)});
}

void ServerLink::on_heartbeat_ack(std::uint64_t seq, std::vector<Effect>& out) {
    if (!is_admitted()) return;
    auto& unanswered = std::get<Admitted>(link_->stage).unanswered;
    while (!unanswered.empty() && unanswered.front().seq <= seq) {
        membership_->acknowledged_at =
            std::max(membership_->acknowledged_at, unanswered.front().at);
        unanswered.pop_front();
    }
    if (unanswered.size() >= silent_after_unanswered) return;
    outage_.reset();
    // The server answers again on this connection: the attempt to open a second one is not needed.
    if (const auto* trying = std::get_if<Trying>(&attempt_)) out.push_back(CloseLink{trying->link});
    attempt_ = NoAttempt{};
}

// ---- silence ------------------------------------------------------------------------------------

void ServerLink::heartbeat(Instant now, std::vector<Effect>& out) {
    auto& admitted = std::get<Admitted>(link_->stage);
    admitted.heartbeat_at = now + limits::heartbeat_interval;
    out.push_back(Send{link_->id, control::Heartbeat{++last_seq_}});
    admitted.unanswered.push_back({last_seq_, now});
    if (admitted.unanswered.size() > most_unanswered) admitted.unanswered.pop_front();
    if (admitted.unanswered.size() < silent_after_unanswered) return;
    // An open connection without any answer counts as no connection: the wait for the server has
    // begun.
    if (!outage_) {
        begin_outage(membership_->acknowledged_at);
        last_error_ = {ConnectError::no_answer, "the connection is silent"};
    }
    note_later(now);
    if (std::holds_alternative<NoAttempt>(attempt_)) connect(now, out);
}

ServerLink::Outage& ServerLink::begin_outage(Instant since) {
    if (!outage_) outage_ = Outage{since};
    return *outage_;
}

void ServerLink::note_later(Instant now) {
    if (!outage_->note_at) outage_->note_at = now + first_note_after;
}

std::optional<Instant> ServerLink::times_out_at() const {
    if (!outage_) return std::nullopt;
    auto timeout = config_.join_timeout;
    if (membership_ && membership_->welcome.hosted && membership_->welcome.lease > Duration{})
        timeout = std::min(timeout, share_of(membership_->welcome.lease));
    return outage_->since + timeout;
}

void ServerLink::on_timed_out(Instant now, std::vector<Effect>& out) const {
    if (!outage_) return;
    if (outage_->refusal) return out.push_back(Rejected{*outage_->refusal});
    // `reason` names the program that answers at the endpoint.
    const bool is_named = last_error_.error == ConnectError::wrong_protocol;
    out.push_back(ServerGone{with_last_error(
        std::string{is_named ? "no ddprun answers" : describe(last_error_.error)} + " at " +
        config_.endpoint + " for " + whole_seconds(now - outage_->since))});
}

std::string ServerLink::with_last_error(std::string what) const {
    if (!last_error_.reason.empty()) what += " (" + last_error_.reason + ")";
    return what;
}

// ---- time ---------------------------------------------------------------------------------------

/// After its hello a server answers a join or resume at once, whatever the answer is.
std::optional<Instant> ServerLink::admission_ends_at() const {
    if (greeted() == nullptr) return std::nullopt;
    return greeted()->at + limits::handshake_timeout;
}

std::optional<Instant> ServerLink::heartbeat_at() const {
    return is_admitted() ? std::get<Admitted>(link_->stage).heartbeat_at : std::nullopt;
}

void ServerLink::on_deadline(Instant now, std::vector<Effect>& out) {
    const auto admission_end = admission_ends_at();
    if (admission_end && now >= *admission_end) {
        const int silent = current();
        out.push_back(CloseLink{silent});
        on_closed(
            {silent, ConnectError::no_answer, "it says hello and does not answer the join"},
            now,
            out);
    }
    const auto* pausing = std::get_if<Pausing>(&attempt_);
    if (pausing != nullptr && now >= pausing->until) connect(now, out);
    const auto next_heartbeat = heartbeat_at();
    if (next_heartbeat && now >= *next_heartbeat) heartbeat(now, out);
    if (outage_ && outage_->note_at && now >= *outage_->note_at) {
        const auto waited = now - outage_->since;
        outage_->note_at = now + std::max(shortest_note_interval, waited);
        out.push_back(NoteWaiting{last_error_.error, last_error_.reason, waited});
    }
}

std::optional<Instant> ServerLink::next_deadline() const {
    auto next = earliest(admission_ends_at(), heartbeat_at());
    if (const auto* pausing = std::get_if<Pausing>(&attempt_))
        next = earliest(next, pausing->until);
    if (outage_) next = earliest(next, outage_->note_at);
    return next;
}

// ---- state --------------------------------------------------------------------------------------

bool ServerLink::wants_greeting() const {
    return link_ && std::holds_alternative<Fresh>(link_->stage);
}

bool ServerLink::is_admitted() const {
    return link_ && std::holds_alternative<Admitted>(link_->stage);
}

int ServerLink::current() const {
    require(link_.has_value(), "messages go to an open link");
    return link_->id;
}

bool ServerLink::is_trying(int link) const {
    const auto* trying = std::get_if<Trying>(&attempt_);
    return trying != nullptr && trying->link == link;
}

const ServerLink::Greeted* ServerLink::greeted() const {
    return link_ ? std::get_if<Greeted>(&link_->stage) : nullptr;
}

void ServerLink::check() const {
    require(!is_admitted() || membership_, "an admitted node has been welcomed");
    require(!outage_ || !outage_->refusal || !is_admitted(), "a refused node is not admitted");
}

std::string whole_seconds(Duration length) {
    return seconds_text(std::chrono::floor<std::chrono::seconds>(length));
}

std::string describe(const ServerLink::Event& event) {
    using L = ServerLink;
    return std::visit(
        Overloaded{
            [](L::ConnectRequested) { return std::string{"connect requested"}; },
            [](const L::LinkOpened& e) {
                return "link opened " + link_field(e.link) + " as " + e.socket_addr;
            },
            [](const L::LinkClosed& e) {
                return "link closed " + link_field(e.link) + ": " + std::string{describe(e.error)} +
                       ": " + e.reason;
            },
            [](const L::ConnectRefused& e) { return "connect refused: " + e.reason; },
            [](const L::GreetingMade& e) {
                return "greeting made " + control::describe(e.message);
            },
            [](L::SuccessionChanged e) {
                return std::string{
                    e.can_others_follow ? "others can follow" : "no other can follow"};
            },
            [](L::WorkersStarted) { return std::string{"workers started"}; },
            [](L::WorkersEnded) { return std::string{"workers ended"}; },
            [](L::ReconnectRequested) { return std::string{"reconnect requested"}; },
            [](L::DisconnectRequested) { return std::string{"disconnect requested"}; },
            [](L::ResultAwaited) { return std::string{"result awaited"}; },
            [](L::TimedOut) { return std::string{"timed out"}; },
            [](L::DeadlinePassed) { return std::string{"deadline passed"}; },
            [](const auto& message) { return control::describe(control::ServerMessage{message}); },
        },
        event);
}

std::string describe(const ServerLink::Effect& effect) {
    using L = ServerLink;
    return std::visit(
        Overloaded{
            [](const L::Connect& e) { return "connect " + link_field(e.link); },
            [](const L::Send& e) {
                return "send " + link_field(e.link) + ' ' + control::describe(e.message);
            },
            [](const L::CloseLink& e) { return "close " + link_field(e.link); },
            [](const L::NoteWaiting& e) {
                return "note waiting: " + std::string{describe(e.error)} + ": " + e.reason;
            },
            [](const L::NoteStandby& e) { return "note standby: " + e.reason; },
            [](const L::NoteServerLost& e) { return "note server lost: " + e.reason; },
            [](L::NoteServerBack) { return std::string{"note server back"}; },
            [](L::JoinUnanswered) { return std::string{"join unanswered"}; },
            [](L::Ended) { return std::string{"ended"}; },
            [](const L::Rejected& e) { return "rejected: " + e.reason; },
            [](const L::ServerGone& e) { return "server gone: " + e.reason; },
            [](const L::FoundStale& e) { return "found stale: " + e.what; },
        },
        effect);
}

std::string_view describe(ServerLink::ConnectError error) {
    using ConnectError = ServerLink::ConnectError;
    switch (error) {
        case ConnectError::unresolved: return "name does not resolve";
        case ConnectError::refused: return "connection refused";
        case ConnectError::no_answer: return "no answer";
        case ConnectError::wrong_protocol: return "something else answers";
        case ConnectError::wrong_version: return "a server of another version answers";
        case ConnectError::wrong_secret: return "the secret is not accepted";
        case ConnectError::not_encrypted: return "a server without a secret answers";
        case ConnectError::needs_secret: return "a server with a secret answers";
        case ConnectError::lost: return "connection lost";
    }
    return "?";
}

}  // namespace ddprun::agent
