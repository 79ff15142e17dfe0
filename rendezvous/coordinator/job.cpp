// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/job.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/coordinator/neighbours.hpp"
#include "rendezvous/coordinator/rank_order.hpp"

#include <signal.h>

#include <algorithm>
#include <map>
#include <utility>

namespace ddprun::coordinator {
namespace job {
namespace {

using namespace std::chrono_literals;

/// Who comes while the job ends is to ask again: the next job of this id is about to begin.
constexpr Duration retry_while_ending = 1s;
/// A wake-up later than this means that the server did not run.
constexpr Duration late_wake_up = limits::heartbeat_interval / 2;

std::string held_text(const Hold& hold) {
    return "its host was lost or left more than once within 10 min: it stands by for " +
           std::to_string(std::chrono::ceil<std::chrono::seconds>(hold.length).count()) +
           " s, unless it is needed";
}

std::string counted(std::size_t count, const char* one) {
    return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

bool is_through_proxy(const Member& member) {
    return !member.join.socket_addr.empty() &&
           member.join.socket_addr != member.connection.peer_socket;
}

}  // namespace
}  // namespace job

Job::Job(Identity identity, const control::Join& first, Instant now)
    : identity_(std::move(identity)),
      terms_(first),
      budget_(first.max_restarts),
      delay_(first.settings.restart),
      losses_(first.settings.max_losses),
      join_ends_(now + first.settings.join_timeout),
      entered_at_(now) {}

void Job::handle(Event event, Instant now, std::vector<Effect>& out) {
    members_.begin_event();
    const auto deadline = next_deadline();
    if (deadline && now > *deadline + job::late_wake_up) on_woken_late(now);
    const auto state_before = state_;
    has_changed_ = true;
    std::visit(
        Overloaded{
            [&](Joined& joined) { on_joined(std::move(joined), now, out); },
            [&](Resumed& resumed) { on_resumed(std::move(resumed), now, out); },
            [&](Said& said) { on_said(std::move(said), now, out); },
            [&](const Dropped& dropped) { on_dropped(dropped, now); },
            [&](const Interrupted& interrupted) { on_interrupted(interrupted, now, out); },
            [&](const Dissolved& dissolved) { on_dissolved(dissolved, now, out); },
            [&](DeadlinePassed) { on_deadline(now, out); },
        },
        event);
    if (has_changed_) settle(now, out);
    check();
    if (state_ != state_before) check_round();
}

void Job::settle(Instant now, std::vector<Effect>& out) {
    if (state_ == State::recovering) update_recovering(now, out);
    if (state_ == State::draining && stopping_count_ == 0) judge(now, out);
    if (state_ == State::forming) update_forming(now, out);
    if (state_ == State::running) refuse_surplus(now, out);
}

// ---- connections --------------------------------------------------------------------------------

void Job::on_joined(Joined joined, Instant now, std::vector<Effect>& out) {
    const auto connection = joined.connection.connection;
    if (auto* member = members_.find(joined.join.node.nonce)) {
        if (connection < member->connection.connection) return close_outdated(connection, out);
        return rejoin(*member, joined, now, out);
    }
    if (cancel_ || is_over())
        return refuse(
            connection,
            "job '" + identity_.run_id + "' is ending: " + reason_,
            job::retry_while_ending,
            out);
    if (const auto why = disagreement(terms_, joined.join); !why.empty())
        return refuse(
            connection,
            "job '" + identity_.run_id + "': " + why + "; all nodes must be started alike",
            std::nullopt,
            out);
    if (const auto objection = objection_to_place(joined.join, now))
        return refuse(connection, objection->reason, objection->retry, out);
    auto reach = reach_of(joined.join, joined.connection);
    if (!reach) return refuse(connection, reach.error().context, std::nullopt, out);
    if (members_.size() >= static_cast<std::size_t>(limits::max_nodes_per_job))
        return refuse(connection, "too many nodes", std::nullopt, out);

    Member newcomer;
    newcomer.join = std::move(joined.join);
    newcomer.connection = std::move(joined.connection);
    newcomer.reach = std::move(*reach);
    newcomer.came_at = now;
    newcomer.heard_at = now;
    auto& member = members_.add(std::move(newcomer));
    ++standby_count_;
    if (const auto next = next_look_at(member)) look_at(*next);
    welcome(member, out);
    hold_back(member, now, out);
    switch (state_) {
        case State::forming:
            if (member.hold) send(member, control::Standby{standby_reason(member)}, out);
            if (!round_ && !identity_.previous_end.empty())
                send(
                    member,
                    control::Standby{
                        "a new job begins; the one before it under this id " +
                        identity_.previous_end},
                    out);
            break;
        case State::running: consider_late_node(member, now, out); break;
        case State::draining:
        case State::recovering: send(member, control::Standby{standby_reason(member)}, out); break;
        case State::over: break;
    }
}

/// With fixed places a node brings its own, which nobody else may have.
std::optional<control::Refused> Job::objection_to_place(const control::Join& join, Instant now) {
    if (!terms_.settings.is_static) return std::nullopt;
    const auto wrong = [](std::string reason) {
        return control::Refused{std::move(reason), std::nullopt};
    };
    if (!join.node_rank || *join.node_rank >= terms_.nodes.max)
        return wrong(
            "with static rendezvous each node needs --node-rank, 0 to " +
            std::to_string(terms_.nodes.max - 1));
    for (auto* member : members_.by_arrival()) {
        if (member->join.node_rank != join.node_rank) continue;
        // Who still asks does so every second.
        const bool is_old =
            member->contested_at && now >= *member->contested_at + limits::suspect_after;
        if (!member->contested_at || is_old) member->contested_at = now;
        const auto taken = "node rank " + std::to_string(*join.node_rank) + " of job '" +
                           identity_.run_id + "' is taken by " + member->name() +
                           ", and asked for by " + join.node.host + " (pid " +
                           std::to_string(join.node.pid) + ")";
        // Somebody who says nothing more may be lost, and this its replacement.
        const bool may_go =
            !is_heard_since(*member, *member->contested_at, now) || member->is_leaving();
        if (may_go) return control::Refused{taken, job::retry_while_ending};
        return wrong(taken + "; give each node a --node-rank of its own");
    }
    return std::nullopt;
}

/// The answer to its first join did not reach it, so it has done nothing in this job.
void Job::rejoin(Member& member, const Joined& joined, Instant now, std::vector<Effect>& out) {
    attach(member, joined.connection, now, out);
    member.join.store_port = joined.join.store_port;
    member.join.socket_addr = joined.join.socket_addr;
    welcome(member, out);
    const bool has_new_store = member.group_rank && *member.group_rank == 0 &&
                               place_of(member).store_port != joined.join.store_port;
    switch (state_) {
        case State::forming: break;
        case State::running:
            if (has_new_store)
                give_up_store(member, now, out);
            else if (member.group_rank)
                send(member, assignment_for(member), out);
            else
                send(member, control::Standby{standby_reason(member)}, out);
            break;
        case State::draining:
            if (has_new_store)
                set_state(member, Member::State::ready);
            else if (member.group_rank)
                stop_untold(member, now, out);
            if (member.state == Member::State::ready)
                send(member, control::Standby{standby_reason(member)}, out);
            break;
        case State::recovering:
            if (member.group_rank)
                give_up_store(member, now, out);
            else
                send(member, control::Standby{standby_reason(member)}, out);
            break;
        case State::over: send(member, *result_, out); break;
    }
}

/// The store that everybody was told of is closed, and no worker of this node ever ran.
void Job::give_up_store(Member& member, Instant now, std::vector<Effect>& out) {
    set_state(member, Member::State::ready);
    control::Cause cause;
    cause.kind = control::Cause::Kind::node_lost;
    cause.reason = "node " + member.name() + " joined again with another store";
    cause.host = member.host();
    cause.round = round_->number;
    depart(member, std::move(cause), now, out);
    send(member, control::Standby{standby_reason(member)}, out);
}

/// A member of the draining round that never heard of it has no workers to wait for. But if it is
/// the first, others have used its store, and only a round that it takes up and stops makes it
/// open another.
void Job::stop_untold(Member& member, Instant now, std::vector<Effect>& out) {
    if (*member.group_rank > 0) return set_state(member, Member::State::ready);
    send(member, assignment_for(member), out);
    stop_member(member, now, out);
}

void Job::on_resumed(Resumed resumed, Instant now, std::vector<Effect>& out) {
    const auto connection = resumed.connection.connection;
    auto* member = members_.find(resumed.resume.join.node.nonce);
    if (member == nullptr && state_ == State::recovering) {
        member = take_in(resumed, now, out);
        if (member == nullptr) return;
    }
    if (member == nullptr) {
        if (is_over()) {
            out.push_back(Send{connection, control::Resumed{}});
            out.push_back(Send{connection, *result_});
            return;
        }
        out.push_back(Send{connection, control::Lost{"the job went on without this node"}});
        out.push_back(Close{connection, "resumed after it was lost"});
        return;
    }
    if (connection < member->connection.connection) return close_outdated(connection, out);
    attach(*member, resumed.connection, now, out);
    auto reach = reach_of(resumed.resume.join, resumed.connection);
    if (reach) member->reach = std::move(*reach);
    member->join.socket_addr = resumed.resume.join.socket_addr;
    member->join.peer_port = resumed.resume.join.peer_port;
    if (resumed.resume.state == control::NodeState::ready)
        member->join.store_port = resumed.resume.join.store_port;
    take_up(*member, resumed.resume, now, out);
}

/// What a node said on a connection that it has given up for a newer one, and that the network
/// delivers only now.
void Job::close_outdated(ConnectionId connection, std::vector<Effect>& out) {
    ++stale_count_;
    out.push_back(Close{connection, "the node has a newer connection"});
}

void Job::attach(
    Member& member, const Connected& connection, Instant now, std::vector<Effect>& out) {
    if (member.is_connected && member.connection.connection != connection.connection)
        out.push_back(Close{member.connection.connection, "replaced by a newer connection"});
    member.connection = connection;
    member.is_connected = true;
    member.lost_at.reset();
    member.heard_at = now;
    trust_again(member, out);
}

void Job::take_up(
    Member& member, const control::Resume& resume, Instant now, std::vector<Effect>& out) {
    if (is_over()) {
        send(member, control::Resumed{}, out);
        return send(member, *result_, out);
    }
    if (state_ == State::recovering) return recover(member, resume, now, out);
    const bool has_place =
        member.group_rank && (state_ == State::running || state_ == State::draining);
    if (has_place)
        take_up_in_round(member, resume, now, out);
    else
        take_up_outside(member, resume, out);
}

void Job::take_up_in_round(
    Member& member, const control::Resume& resume, Instant now, std::vector<Effect>& out) {
    const int told = resume.assignment ? resume.assignment->round : -1;
    if (told > round_->number ||
        (told < round_->number && resume.state != control::NodeState::ready))
        return lose(member, "it came back acting in another round", now, out);

    send(member, control::Resumed{}, out);
    if (told < round_->number) {
        // What told it of this round was lost with the connection.
        if (state_ == State::running) return send(member, assignment_for(member), out);
        return stop_untold(member, now, out);
    }
    if (state_ == State::running)
        send(member, assignment_for(member), out);
    else if (member.state == Member::State::stopping && resume.state != control::NodeState::ready)
        stop_member(member, now, out);
    if (resume.failure)
        on_failed(
            member,
            {told, resume.age.value_or(Duration{}), *resume.failure, resume.kind},
            now,
            out);
    switch (resume.state) {
        case control::NodeState::starting: break;
        case control::NodeState::running: on_started(member, {told, resume.reached}); break;
        // A failure, a leave or its ready is about to say why.
        case control::NodeState::stopping: break;
        case control::NodeState::ready:
            on_ready(member, {told, member.join.store_port, member.join.nproc}, now, out);
            break;
        case control::NodeState::succeeded: on_succeeded(member, told, now, out); break;
    }
}

void Job::take_up_outside(Member& member, const control::Resume& resume, std::vector<Effect>& out) {
    send(member, control::Resumed{}, out);
    if (resume.state == control::NodeState::ready) {
        set_state(member, Member::State::ready);
        if (state_ != State::forming) send(member, control::Standby{standby_reason(member)}, out);
        return;
    }
    set_state(member, Member::State::out);
    if (!resume.assignment) return;
    const int round = resume.assignment->round;
    control::Cause cause;
    cause.kind = control::Cause::Kind::node_lost;
    cause.reason = "round " + std::to_string(round) + " went on without this node";
    cause.round = round;
    send(member, control::Stop{round, cause.reason, cause, SIGKILL, {}}, out);
}

void Job::on_dropped(const Dropped& dropped, Instant now) {
    auto* member = members_.find(dropped.nonce);
    const bool is_current = member != nullptr && member->is_connected &&
                            member->connection.connection == dropped.connection;
    if (!is_current) {
        has_changed_ = false;
        return;
    }
    member->is_connected = false;
    // It has the result, or had said that it goes: the end of its connection is the last of it.
    if (is_over() || member->is_leaving()) {
        if (state_ == State::recovering && member->group_rank) place_of(*member).is_gone = true;
        return remove(*member, now);
    }
    if (job::is_through_proxy(*member) && has_lease()) return;
    member->lost_at = now + limits::reconnect_grace;
    look_at(*member->lost_at);
}

void Job::lose(Member& member, const std::string& how, Instant now, std::vector<Effect>& out) {
    control::Cause cause;
    cause.kind = control::Cause::Kind::node_lost;
    cause.reason = "node " + member.name() + " was lost: " + how;
    cause.host = member.host();
    cause.round = round_ ? round_->number : -1;
    if (member.is_connected) {
        if (!is_over()) send(member, control::Lost{cause.reason}, out);
        out.push_back(Close{member.connection.connection, cause.reason});
        member.is_connected = false;
    }
    if (member.group_rank) hosts_.note_gone(member.host(), round_->number, now);
    // Not one of those who are told to stop.
    set_state(member, Member::State::out);
    if (!member.is_leaving()) depart(member, std::move(cause), now, out);
    remove(member, now);
}

/// A node goes, or says that it will: what that means for the round.
void Job::depart(
    const Member& member, control::Cause cause, Instant now, std::vector<Effect>& out) {
    switch (state_) {
        case State::forming:
            note(cause.reason, out);
            last_cause_ = std::move(cause);
            break;
        case State::running:
            if (!member.group_rank) {
                note(cause.reason, out);
                break;
            }
            if (!is_needed(member)) {
                place_of(member).is_gone = true;
                break;
            }
            departure_ = cause;
            drain(cause, cause.signal != 0 ? cause.signal : SIGTERM, now, out);
            break;
        case State::draining:
            if (!member.group_rank || !is_needed(member) || departure_) break;
            note(cause.reason, out);
            departure_ = std::move(cause);
            break;
        case State::recovering:
            if (!member.group_rank || !is_needed(member)) break;
            if (!departure_) departure_ = cause;
            if (!stop_) drain(cause, cause.signal != 0 ? cause.signal : SIGTERM, now, out);
            break;
        case State::over: break;
    }
}

void Job::remove(Member& member, Instant now) {
    if (round_ && member.group_rank) place_of(member).gone_at = now;
    set_state(member, Member::State::out);
    if (!member.group_rank) --standby_count_;
    if (member.suspicion) --suspect_count_;
    members_.remove(Nonce{member.nonce()});
}

// ---- what members say ---------------------------------------------------------------------------

void Job::on_said(Said said, Instant now, std::vector<Effect>& out) {
    auto* member = members_.find(said.nonce);
    const bool is_current = member != nullptr && member->is_connected &&
                            member->connection.connection == said.connection;
    if (!is_current) {
        has_changed_ = false;
        ++stale_count_;
        return;
    }
    // What was sent to it while it was silent arrives about now, the stop too.
    const bool was_silent = !is_heard(*member, now);
    member->heard_at = now;
    trust_again(*member, out);
    if (was_silent && member->ready_by) member->ready_by = ready_by(now);
    std::visit(
        Overloaded{
            // The coordinator takes these two for itself.
            [&](const control::Join&) { ++stale_count_; },
            [&](const control::Resume&) { ++stale_count_; },
            [&](const control::Ready& ready) { on_ready(*member, ready, now, out); },
            [&](const control::Started& started) { on_started(*member, started); },
            [&](const control::Succeeded& succeeded) {
                on_succeeded(*member, succeeded.round, now, out);
            },
            [&](control::Failed& failed) { on_failed(*member, std::move(failed), now, out); },
            [&](const control::Heartbeat& heartbeat) {
                has_changed_ = false;
                send(*member, control::HeartbeatAck{heartbeat.seq}, out);
            },
            [&](const control::NeighbourHeard& heard) {
                on_neighbour_heard(*member, heard, now, out);
            },
            [&](const control::Leave& leave) { on_leave(*member, leave, now, out); },
        },
        said.message);
}

void Job::on_ready(
    Member& member, const control::Ready& ready, Instant now, std::vector<Effect>& out) {
    member.join.store_port = ready.store_port;
    member.join.nproc = ready.nproc;
    switch (state_) {
        case State::forming: set_state(member, Member::State::ready); return;
        case State::draining: set_state(member, Member::State::ready); return;
        case State::over: set_state(member, Member::State::ready); return;
        case State::recovering:
            if (!member.group_rank || stop_) return set_state(member, Member::State::ready);
            break;
        case State::running: break;
    }
    if (!member.group_rank) {
        const bool was_ready = member.state == Member::State::ready;
        set_state(member, Member::State::ready);
        if (!was_ready && member.is_candidate()) consider_late_node(member, now, out);
        return;
    }
    const bool has_workers =
        member.state == Member::State::starting || member.state == Member::State::running;
    if (!has_workers || ready.round < round_->number) {
        ++stale_count_;
        return;
    }
    // Its fence fell, and the server had not noticed anything.
    set_state(member, Member::State::ready);
    control::Cause cause;
    cause.kind = control::Cause::Kind::node_lost;
    cause.reason = "node " + member.name() + " stopped its workers on its own";
    cause.host = member.host();
    cause.round = round_->number;
    depart(member, std::move(cause), now, out);
}

void Job::on_started(Member& member, const control::Started& started) {
    const bool is_meant =
        is_round_going_on() && member.group_rank && started.round == round_->number;
    if (is_meant) member.reached = started.reached;
    if (is_meant && member.state == Member::State::starting)
        set_state(member, Member::State::running);
    else if (!is_meant || member.state != Member::State::running)
        ++stale_count_;
}

void Job::on_succeeded(Member& member, int round, Instant now, std::vector<Effect>& out) {
    const bool is_round_at_hand =
        has_round_at_hand() && member.group_rank && round == round_->number;
    if (!is_round_at_hand || !member.is_active() || place_of(member).has_succeeded) {
        ++stale_count_;
        return;
    }
    place_of(member).has_succeeded = true;
    ++round_->succeeded_count;
    // While draining it stays one whose `ready` is waited for.
    if (is_round_going_on()) set_state(member, Member::State::succeeded);
    const bool is_success = round_->succeeded_count == round_->places.size();
    if (is_success && !cancel_ && failures_.empty())
        end(control::Outcome::succeeded, std::nullopt, 0, now, out);
}

/// Of each node the first failure, and one more when that was a consequence and this is none: a
/// crash may take longer to end than what died of it.
bool Job::is_news(const Member& member, const control::WorkerFailure& failure) const {
    return std::all_of(failures_.begin(), failures_.end(), [&](const Failure& known) {
        return known.group_rank != *member.group_rank ||
               (known.is_consequence() && !failure.is_consequence);
    });
}

void Job::on_failed(Member& member, control::Failed failed, Instant now, std::vector<Effect>& out) {
    const bool is_round_at_hand =
        has_round_at_hand() && member.group_rank && failed.round == round_->number;
    const bool can_fail = member.is_active() && member.state != Member::State::succeeded;
    if (!is_round_at_hand || !can_fail || !is_news(member, failed.failure)) {
        ++stale_count_;
        return;
    }
    failures_.push_back({now - failed.age, cause_of(member, failed), *member.group_rank});
    if (is_round_going_on()) drain(failures_.back().cause, SIGTERM, now, out);
}

void Job::on_leave(
    Member& member, const control::Leave& leave, Instant now, std::vector<Effect>& out) {
    const bool is_new = !member.is_leaving();
    if (is_new) member.leave_signal = leave.signal;
    if (leave.signal == SIGINT)
        return on_interrupted(
            {control::Cause::Kind::cancelled, leave.signal, leave.reason}, now, out);
    if (!is_new) {
        ++stale_count_;
        return;
    }
    control::Cause cause;
    cause.kind = control::Cause::Kind::node_left;
    cause.reason = "node " + member.name() + " leaves: " + leave.reason;
    cause.host = member.host();
    cause.round = round_ ? round_->number : -1;
    cause.signal = leave.signal;
    if (!left_) left_ = cause;
    if (member.group_rank) hosts_.note_gone(member.host(), round_->number, now);
    depart(member, std::move(cause), now, out);
}

void Job::on_interrupted(const Interrupted& interrupted, Instant now, std::vector<Effect>& out) {
    if (cancel_ || is_over()) return;
    control::Cause cause;
    cause.kind = interrupted.kind;
    cause.reason = interrupted.reason;
    cause.signal = interrupted.signal;
    cause.round = round_ ? round_->number : -1;
    cancel_ = cause;
    switch (state_) {
        case State::forming: judge(now, out); break;
        case State::running: drain(cause, interrupted.signal, now, out); break;
        // Everybody is stopping already; the judgement is what changes.
        case State::draining: say("draining", cause.reason, out); break;
        case State::recovering:
            if (is_round_going_on()) drain(cause, interrupted.signal, now, out);
            break;
        case State::over: break;
    }
}

void Job::on_dissolved(const Dissolved& dissolved, Instant now, std::vector<Effect>& out) {
    require(is_young(), "only a job that nobody agreed on yet is dissolved");
    is_nameless_ = false;
    goes_on_ = false;
    for (auto* member : members_.by_arrival())
        give_up(*member, dissolved.reason, now, out);
}

// ---- rounds -------------------------------------------------------------------------------------

void Job::form(std::string why, Instant now) {
    enter(State::forming, now);
    forming_why_ = std::move(why);
    pause_ends_.reset();
    stop_.reset();
    drain_look_at_.reset();
    departure_.reset();
    failures_.clear();
    last_call_ends_.reset();
    join_ends_ = now + terms_.settings.join_timeout;
}

void Job::update_forming(Instant now, std::vector<Effect>& out) {
    if (is_empty()) return;
    if (members_.size() > 0 && !members_.has_somebody_staying()) return judge(now, out);
    if (begins_anew_) begin_anew(now, out);
    if (pause_ends_ && now < *pause_ends_) return say("forming", forming_why_, out);
    pause_ends_.reset();
    const auto ready =
        static_cast<int>(members_.candidate_count(static_cast<std::size_t>(terms_.nodes.min)));
    if (ready < terms_.nodes.min)
        last_call_ends_.reset();
    else if (!last_call_ends_)
        last_call_ends_ = now + terms_.settings.last_call_timeout;
    const auto decision = decide_round(
        {ready,
         terms_.nodes.min,
         static_cast<int>(most_nodes()),
         ready >= terms_.nodes.min && is_previous_round_settled(),
         last_call_ends_,
         now});
    if (decision.closes) {
        // Why there is a new round is worth a line even when nobody has to be waited for.
        if (!forming_why_.empty()) say("forming", forming_why_, out);
        return close_round(decision.reason, now, out);
    }
    if (!last_call_ends_ && now >= *join_ends_) return give_up_forming(now, out);
    say("forming",
        forming_why_.empty() ? decision.reason : forming_why_ + "; " + decision.reason,
        out);
}

void Job::close_round(const std::string& why, Instant now, std::vector<Effect>& out) {
    const auto chosen =
        choose_members(members_, static_cast<std::size_t>(terms_.nodes.min), most_nodes());
    const auto warning = give_places(chosen, now);
    enter(State::running, now);
    const auto refill_after = terms_.settings.restart.refill_after;
    if (budget_.used() > 0 && refill_after > Duration{}) refill_at_ = now + refill_after;
    join_ends_.reset();
    last_call_ends_.reset();
    round_->because = std::exchange(forming_why_, {});
    left_.reset();
    for (auto* member : members_.by_arrival())
        if (member->group_rank) set_state(*member, Member::State::starting);

    auto reason = "round " + std::to_string(round_->number) +
                  " complete: " + job::counted(round_->places.size(), "node") + ", " +
                  job::counted(static_cast<std::size_t>(round_->world_size), "worker") + " (" +
                  why + ")";
    if (!warning.empty()) reason += "; " + warning;
    say("running", std::move(reason), out);
    for (const auto& place : round_->places) {
        const auto& member = *members_.find(place.nonce);
        send(member, assignment_for(member), out);
    }
    for (const auto* member : standbys())
        if (!member->is_leaving()) send(*member, control::Standby{standby_reason(*member)}, out);
}

/// Makes `round_` of those chosen; everybody else has no place from here on. Returns a warning.
std::string Job::give_places(const std::vector<Member*>& chosen, Instant now) {
    std::vector<Candidate> candidates;
    candidates.reserve(chosen.size());
    for (const auto* member : chosen)
        candidates.push_back(
            {member->join.node_rank,
             member->group_rank,
             is_endpoint_host(member->reach, member->connection),
             member->join.node.host,
             member->arrival});
    const auto order = rank_order(candidates);

    for (auto* member : members_.by_arrival()) {
        member->group_rank.reset();
        member->reached = 0;
    }
    Round round;
    round.number = next_round_++;
    round.restart_count = budget_.total();
    round.began_at = now;
    std::map<std::string, int> role_sizes;
    for (const auto& placement : order.places) {
        auto& member = *chosen[placement.candidate];
        member.group_rank = static_cast<int>(round.places.size());
        member.hold.reset();
        Place place;
        place.nonce = member.nonce();
        place.host = member.host();
        place.nproc = member.join.nproc;
        place.rank_base = round.world_size;
        place.role = member.join.role;
        place.role_rank_base = role_sizes[place.role];
        place.reach = member.reach;
        place.store_port = member.join.store_port;
        place.peer_port = member.join.peer_port;
        round.world_size += place.nproc;
        role_sizes[place.role] += place.nproc;
        round.places.push_back(std::move(place));
    }
    std::vector<std::string> hosts;
    hosts.reserve(round.places.size());
    for (const auto& place : round.places)
        hosts.push_back(place.host);
    auto neighbours = choose_neighbours(hosts);
    for (std::size_t i = 0; i < round.places.size(); ++i)
        round.places[i].neighbours = std::move(neighbours[i]);
    for (auto& place : round.places)
        place.role_world_size = role_sizes[place.role];
    round_ = std::move(round);
    standby_count_ = members_.size() - round_->places.size();
    return order.warning;
}

control::Assignment Job::assignment_for(const Member& member) const {
    const auto& places = round_->places;
    const auto& place = place_of(member);
    const auto& first = places.front();
    control::Assignment assignment;
    assignment.round = round_->number;
    assignment.restart_count = round_->restart_count;
    assignment.group_rank = *member.group_rank;
    assignment.group_world_size = static_cast<int>(places.size());
    assignment.rank_base = place.rank_base;
    assignment.world_size = round_->world_size;
    assignment.role_rank_base = place.role_rank_base;
    assignment.role_world_size = place.role_world_size;
    assignment.master_addr = address_for(first.reach, member.connection);
    assignment.master_port = first.store_port;
    for (const auto neighbour : place.neighbours) {
        const auto& next = places.at(neighbour);
        assignment.neighbours.push_back(
            {next.nonce, address_for(next.reach, member.connection), next.peer_port});
    }
    return assignment;
}

void Job::drain(const control::Cause& cause, int signal, Instant now, std::vector<Effect>& out) {
    require(is_round_going_on(), "only a running round drains");
    if (state_ == State::running) enter(State::draining, now);
    round_->ran_for = now - round_->began_at;
    refill_at_.reset();
    first_late_at_.reset();
    admit_at_.reset();
    surplus_check_at_.reset();
    auto told_cause = cause;
    // These are long and come with the result.
    if (told_cause.worker) told_cause.worker->details.clear();
    stop_ = control::Stop{
        round_->number, cause.reason, std::move(told_cause), signal, terms_.settings.grace};
    if (state_ == State::draining) say("draining", cause.reason, out);
    for (const auto& place : round_->places) {
        auto* member = members_.find(place.nonce);
        if (member != nullptr && member->is_active()) stop_member(*member, now, out);
    }
}

void Job::stop_member(Member& member, Instant now, std::vector<Effect>& out) {
    set_state(member, Member::State::stopping);
    send(member, *stop_, out);
    // With one node there is nobody to go on without it.
    if (!has_lease()) return;
    member.ready_by = ready_by(now);
    drain_look_at_ = earliest(drain_look_at_, member.ready_by);
}

/// The round goes on without those whose workers do not die. Somebody who is silent is another
/// case: its workers may live on, untold, until its fence falls, so it is waited for until it is
/// lost or heard again, and then has all its time again.
void Job::put_out_the_stuck(Instant now, std::vector<Effect>& out) {
    drain_look_at_.reset();
    for (auto* member : members_.by_arrival()) {
        if (member->state != Member::State::stopping) continue;
        if (!is_heard(*member, now)) {
            drain_look_at_ = earliest(drain_look_at_, now + limits::silent_check_interval);
        } else if (now >= member->ready_by.value()) {
            set_state(*member, Member::State::out);
            note(
                "node " + member->name() + " is out of round " + std::to_string(round_->number) +
                    ": its workers are not gone " + seconds_text(limits::drain_margin) +
                    " after their grace",
                out);
        } else {
            drain_look_at_ = earliest(drain_look_at_, member->ready_by);
        }
    }
}

void Job::consider_late_node(const Member& member, Instant now, std::vector<Effect>& out) {
    const bool restarts = has_room() && terms_.settings.late_nodes == control::LateNodes::restart &&
                          !is_anybody_done() && !member.hold;
    if (restarts) {
        if (!first_late_at_) first_late_at_ = now;
        admit_at_ =
            std::min(now + limits::late_node_quiet, *first_late_at_ + limits::late_node_longest);
    }
    send(member, control::Standby{standby_reason(member)}, out);
}

void Job::admit_late_nodes(Instant now, std::vector<Effect>& out) {
    admit_at_.reset();
    first_late_at_.reset();
    std::vector<std::string> names;
    for (const auto* member : standbys())
        if (member->is_candidate() && !member->hold) names.push_back(member->name());
    if (names.empty() || is_anybody_done()) return;
    control::Cause cause;
    cause.kind = control::Cause::Kind::late_node;
    cause.round = round_->number;
    cause.reason = "restart to let in " + names.front();
    if (names.size() > 1) cause.reason += " and " + job::counted(names.size() - 1, "other node");
    last_cause_ = cause;
    drain(cause, SIGTERM, now, out);
}

void Job::refuse_surplus(Instant now, std::vector<Effect>& out) {
    surplus_check_at_.reset();
    if (standby_count_ == 0 || terms_.nodes.keeps_spares()) return;
    std::vector<Member*> surplus;
    for (auto* member : standbys())
        if (member->is_candidate()) surplus.push_back(member);
    if (surplus.empty()) return;
    const auto heard_at = everybody_heard_at(now);
    for (auto* member : surplus) {
        // It may be the new life of one that is there no longer, and of whose end nobody knows yet.
        if (!heard_at || *heard_at < member->came_at) {
            surplus_check_at_ = now + limits::silent_check_interval;
            continue;
        }
        refuse(member->connection.connection, surplus_reason(), std::nullopt, out);
        remove(*member, now);
    }
}

/// A host that comes and goes ends a round for everybody each time.
void Job::hold_back(Member& member, Instant now, std::vector<Effect>& out) {
    if (state_ == State::recovering) return;
    const auto until = hosts_.stands_by_until(member.host(), now);
    if (!until || has_other_nodes_at(member.host())) return;
    member.hold = Hold{*until, *until - now};
    hold_ends_ = earliest(hold_ends_, until);
    note("node " + member.name() + ": " + job::held_text(*member.hold), out);
}

/// Members of the round: it is not the host that comes and goes.
bool Job::has_other_nodes_at(const std::string& host) const {
    return round_ &&
           std::any_of(round_->places.begin(), round_->places.end(), [&](const Place& place) {
               return place.host == host && members_.find(place.nonce) != nullptr;
           });
}

void Job::end_holds(Instant now, std::vector<Effect>& out) {
    hold_ends_.reset();
    for (auto* member : members_.by_arrival()) {
        if (!member->hold) continue;
        if (now < member->hold->ends_at) {
            hold_ends_ = earliest(hold_ends_, member->hold->ends_at);
            continue;
        }
        member->hold.reset();
        if (state_ == State::running && member->is_candidate())
            consider_late_node(*member, now, out);
    }
}

// ---- time ---------------------------------------------------------------------------------------

void Job::on_deadline(Instant now, std::vector<Effect>& out) {
    const auto is_due = [&](const std::optional<Instant>& moment) {
        return moment && now >= *moment;
    };
    // A moment that is not ours: early, late or meant for another job.
    has_changed_ = false;
    if (const auto next = next_deadline(); !next || now < *next) return;
    has_changed_ = true;
    if (state_ != State::recovering && is_due(look_at_)) look_at_the_silent(now, out);
    if (is_due(refill_at_)) refill_budget(out);
    if (is_due(hold_ends_)) end_holds(now, out);
    if (is_due(admit_at_)) admit_late_nodes(now, out);
    if (state_ == State::draining && is_due(drain_look_at_)) put_out_the_stuck(now, out);
}

std::optional<Instant> Job::next_deadline() const {
    auto next = earliest(look_at_, hold_ends_);
    switch (state_) {
        case State::forming:
            if (pause_ends_) return earliest(next, pause_ends_);
            return earliest(next, last_call_ends_ ? last_call_ends_ : join_ends_);
        case State::running:
            return earliest(earliest(next, refill_at_), earliest(admit_at_, surplus_check_at_));
        case State::draining: return earliest(next, drain_look_at_);
        // Meanwhile nobody is lost.
        case State::recovering: return recovery_->ends_at;
        case State::over: return is_settled() ? forget_at_ : next;
    }
    contradiction("a job in no state", __FILE__, __LINE__);
}

// ---- questions ----------------------------------------------------------------------------------

Duration Job::lease() const {
    return std::max(terms_.settings.lease, limits::shortest_lease);
}

/// When somebody who is told to stop now is no longer waited for.
Instant Job::ready_by(Instant now) const {
    return now + terms_.settings.grace + limits::drain_margin;
}

std::size_t Job::most_nodes() const {
    const bool fills_holes_only =
        terms_.settings.late_nodes == control::LateNodes::never && round_.has_value();
    if (!fills_holes_only) return static_cast<std::size_t>(terms_.nodes.max);
    return std::max(round_->places.size(), static_cast<std::size_t>(terms_.nodes.min));
}

bool Job::has_room() const {
    return round_->places.size() < static_cast<std::size_t>(terms_.nodes.max);
}

bool Job::is_previous_round_settled() const {
    if (!round_) return false;
    return std::all_of(round_->places.begin(), round_->places.end(), [&](const Place& place) {
        const auto* member = members_.find(place.nonce);
        if (member == nullptr || member->state == Member::State::out) return true;
        return member->state == Member::State::ready && member->is_connected;
    });
}

bool Job::has_round_at_hand() const {
    return state_ == State::running || state_ == State::draining ||
           (state_ == State::recovering && round_);
}

bool Job::is_round_going_on() const {
    return state_ == State::running || (state_ == State::recovering && round_ && !stop_);
}

/// The round cannot go on without it.
bool Job::is_needed(const Member& member) const {
    if (!place_of(member).has_succeeded) return true;
    // It hosts the worker store of those that still run.
    return *member.group_rank == 0 && round_->succeeded_count < round_->places.size();
}

Job::Place& Job::place_of(const Member& member) {
    return round_->places.at(static_cast<std::size_t>(member.group_rank.value()));
}

const Job::Place& Job::place_of(const Member& member) const {
    return round_->places.at(static_cast<std::size_t>(member.group_rank.value()));
}

bool Job::is_spoken_for(const Nonce& nonce, ConnectionId connection) const {
    const auto* member = members_.find(nonce);
    return member != nullptr && member->is_connected && member->connection.connection == connection;
}

std::vector<Member*> Job::standbys() {
    std::vector<Member*> found;
    for (auto* member : members_.by_arrival())
        if (!member->group_rank) found.push_back(member);
    return found;
}

std::string Job::standby_reason(const Member& member) const {
    if (member.state == Member::State::out) return "its workers of an earlier round are not gone";
    if (member.hold) return job::held_text(*member.hold);
    if (state_ == State::draining) return "between two rounds: " + reason_;
    if (state_ != State::running) return reason_;
    const auto places = job::counted(round_->places.size(), "node");
    if (!has_room()) {
        if (terms_.nodes.keeps_spares())
            return "spare: the job is full with " + places + ", this one takes the next free place";
        return "the job is full with " + places + "; waiting to know that all of them are there";
    }
    switch (terms_.settings.late_nodes) {
        case control::LateNodes::restart:
            return is_anybody_done()
                       ? "the first workers have finished: the job does not restart for one more"
                       : "the job restarts in a moment to let this node in";
        case control::LateNodes::at_restart:
            return "the job runs with " + places + "; this one gets in at the next restart";
        case control::LateNodes::never:
            return "the job runs with " + places + "; this one takes the next free place";
    }
    contradiction("no policy for late nodes", __FILE__, __LINE__);
}

std::string Job::members_text() const {
    constexpr std::size_t most_named = 8;
    std::string text;
    for (std::size_t i = 0; i < std::min(most_named, round_->places.size()); ++i)
        text += (i == 0 ? "" : ", ") + round_->places[i].host;
    if (round_->places.size() > most_named)
        text += " and " + std::to_string(round_->places.size() - most_named) + " more";
    return text;
}

std::string Job::surplus_reason() const {
    return "job '" + identity_.run_id + "' is complete with " +
           job::counted(round_->places.size(), "node") + " (" + members_text() +
           "); for one more start all with --nnodes=" + std::to_string(terms_.nodes.max + 1);
}

// ---- small changes ------------------------------------------------------------------------------

void Job::enter(State state, Instant now) {
    spent_in_.at(static_cast<std::size_t>(state_)) += now - entered_at_;
    entered_at_ = now;
    state_ = state;
}

void Job::set_state(Member& member, Member::State state) {
    if (member.state == Member::State::stopping) --stopping_count_;
    member.state = state;
    member.ready_by.reset();
    if (member.state == Member::State::stopping) ++stopping_count_;
}

void Job::welcome(const Member& member, std::vector<Effect>& out) const {
    send(
        member,
        control::Welcome{
            identity_.incarnation, 1, has_lease() ? lease() : Duration{}, identity_.is_hosted, {}},
        out);
}

void Job::send(
    const Member& member, control::ServerMessage message, std::vector<Effect>& out) const {
    if (member.is_connected) out.push_back(Send{member.connection.connection, std::move(message)});
}

void Job::refuse(
    ConnectionId connection,
    std::string reason,
    std::optional<Duration> retry,
    std::vector<Effect>& out) {
    out.push_back(Send{connection, control::Refused{reason, retry}});
    out.push_back(Close{connection, "refused: " + reason});
}

void Job::say(std::string_view state, std::string reason, std::vector<Effect>& out) {
    if (state == state_name_ && reason == reason_) return;
    state_name_ = state;
    reason_ = reason;
    out.push_back(Changed{identity_.run_id, state_name_, std::move(reason)});
}

/// Worth a line in the log; the job itself is as it was.
void Job::note(std::string text, std::vector<Effect>& out) const {
    out.push_back(Changed{identity_.run_id, std::string{state_name_}, std::move(text)});
}

/// What must hold after every event and is cheap to ask.
void Job::check() const {
    require(budget_.used() <= budget_.max(), "the budget is never overspent");
    require(is_over() == result_.has_value(), "who is over has a result, and nobody else");
    require(!round_ || round_->number < next_round_, "round numbers only grow");
    require(
        state_ == State::draining || stopping_count_ == 0 || is_over() || (recovery_ && stop_),
        "only a drain stops");
    require(
        (state_ == State::recovering) == recovery_.has_value(), "who recovers knows until when");
    require(state_ != State::forming || join_ends_, "a job that forms does not wait for ever");
    require(
        state_ != State::draining || !has_lease() || drain_look_at_,
        "a drain of several nodes does not wait for ever");
    require(state_ != State::running || round_, "a running job has a round");
    require(state_ != State::running || !cancel_, "who is cancelled does not go on");
    require(suspect_count_ <= members_.size(), "only members are suspected");
}

/// What must hold of a round as a whole; asked when the job's state has changed.
void Job::check_round() const {
    members_.check();
    if (state_ != State::running || round_->is_recovered) return;
    require(
        round_->places.size() + standby_count_ == members_.size(), "a member has a place or none");
    int next_rank = 0;
    std::map<std::string, int> next_role_rank;
    int group_rank = 0;
    for (const auto& place : round_->places) {
        require(place.rank_base == next_rank, "each rank is given once");
        require(place.role_rank_base == next_role_rank[place.role], "each role rank is given once");
        next_rank += place.nproc;
        next_role_rank[place.role] += place.nproc;
        const auto* member = members_.find(place.nonce);
        require(member != nullptr && member->group_rank == group_rank, "a place has its member");
        require(member->state == Member::State::starting, "a member of a new round starts");
        ++group_rank;
    }
    require(next_rank == round_->world_size, "the ranks are all there are");
    for (const auto& place : round_->places)
        require(place.role_world_size == next_role_rank[place.role], "so are those of each role");
}

std::string_view name_of(Job::State state) {
    switch (state) {
        case Job::State::forming: return "forming";
        case Job::State::running: return "running";
        case Job::State::draining: return "draining";
        case Job::State::over: return "over";
        case Job::State::recovering: return "recovering";
    }
    contradiction("a job in no state", __FILE__, __LINE__);
}

}  // namespace ddprun::coordinator
