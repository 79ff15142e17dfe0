// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/connections.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/coordinator/departures.hpp"
#include "rendezvous/coordinator/drain_keepers.hpp"
#include "rendezvous/coordinator/draining.hpp"
#include "rendezvous/coordinator/end_record.hpp"
#include "rendezvous/coordinator/ending.hpp"
#include "rendezvous/coordinator/kept_workers.hpp"
#include "rendezvous/coordinator/node_drain.hpp"
#include "rendezvous/coordinator/preemption.hpp"
#include "rendezvous/coordinator/recovering.hpp"
#include "rendezvous/coordinator/reports.hpp"
#include "rendezvous/coordinator/resize.hpp"
#include "rendezvous/coordinator/running.hpp"
#include "rendezvous/coordinator/standby.hpp"
#include "rendezvous/coordinator/voter_roll.hpp"

#include <signal.h>

#include <utility>

namespace ddprun::coordinator {
namespace connections {
namespace {

using namespace std::chrono_literals;

/// A node that joins while the job ends must retry after this time: the next job of this id is
/// about to begin.
constexpr Duration retry_while_ending = 1s;

bool is_behind_proxy(const Member& member) {
    return !member.join.socket_addr.empty() &&
           member.join.socket_addr != member.connection.peer_socket;
}

void welcome(const JobStep& step, const Member& member) {
    const auto& job = step.job;
    control::Welcome welcome;
    welcome.incarnation = job.identity.incarnation;
    welcome.lease = job.has_lease() ? job.lease() : Duration{};
    welcome.hosted = is_lost_with_server(job);
    welcome.token = member.token;
    welcome.epoch = job.identity.epoch;
    welcome.record = job.identity.record;
    step.send(member, std::move(welcome));
    send_size(step, member);
    send_voters(step, member);
}

void stand_by(const JobStep& step, const Member& member) {
    step.send(member, control::Standby{standby_reason(step.job, member)});
}

/// For a message that arrives late, on a connection that the node has replaced by a newer one.
void close_outdated(JobStep& step, ConnectionId connection) {
    ++step.job.history.stale_count;
    step.out.push_back(Close{connection, "the node has a newer connection"});
}

void attach(JobStep& step, Member& member, const Connected& connection) {
    if (member.is_connected && member.connection.connection != connection.connection)
        step.out.push_back(Close{member.connection.connection, "replaced by a newer connection"});
    member.connection = connection;
    member.is_connected = true;
    feed_silence(step, Silence::Attached{member.nonce()});
}

/// With fixed places a node brings its own place, which no other member may have.
std::optional<control::Refused> objection_to_place(JobStep& step, const control::Join& join) {
    auto& job = step.job;
    if (!job.terms.settings.is_static) return std::nullopt;
    const auto wrong = [](std::string reason) {
        return control::Refused{std::move(reason), std::nullopt};
    };
    if (!join.node_rank || *join.node_rank >= job.terms.nodes.max)
        return wrong(
            "with static rendezvous each node needs --node-rank, 0 to " +
            std::to_string(job.terms.nodes.max - 1));
    for (auto* member : job.members.by_arrival()) {
        if (member->join.node_rank != join.node_rank) continue;
        // A node that still requests the place repeats its join every second.
        auto& since = member->contested_at;
        if (!since || step.now >= *since + limits::suspect_after) since = step.now;
        const auto taken = "node rank " + std::to_string(*join.node_rank) + " of job '" +
                           job.identity.run_id + "' is taken by " + member->name() +
                           ", and asked for by " + join.node.host + " (pid " +
                           std::to_string(join.node.pid) + ")";
        // A member that has been silent since then may be lost, and this node may be its
        // replacement.
        const bool may_go =
            !job.silence.is_heard_since(member->nonce(), *since, step.now) || member->is_leaving();
        if (may_go) return control::Refused{taken, retry_while_ending};
        return wrong(taken + "; give each node a --node-rank of its own");
    }
    return std::nullopt;
}

/// Why the node was started otherwise than the job's; empty: it was not.
std::string objection_to_terms(const JobData& job, const control::Join& join) {
    if (auto why = disagreement(job.terms, join); !why.empty()) return why;
    // A node that could vote takes part as any other where the server has no use for it.
    if (job.identity.voter && join.settings.failover != control::Failover::nodes)
        return "--rdzv-standby is off, or without effect, on " + join.node.host +
               " and auto on the node that serves";
    return {};
}

std::optional<control::Refused> objection_to_join(JobStep& step, const control::Join& join) {
    auto& job = step.job;
    if (job.causes.cancel || job.is<Over>())
        return control::Refused{
            "job '" + job.identity.run_id + "' is ending: " + job.history.said.reason,
            retry_while_ending};
    if (const auto why = objection_to_terms(job, join); !why.empty())
        return control::Refused{
            "job '" + job.identity.run_id + "': " + why + "; all nodes must be started alike",
            std::nullopt};
    return objection_to_place(step, join);
}

void admit(JobStep& step, NodeJoined joined, Reach reach) {
    auto& job = step.job;
    auto& member = add_member(
        step,
        std::move(joined.connection),
        std::move(joined.join),
        std::move(reach),
        Member::State::ready);
    if (member.version() >= control::tokens_since) member.token = member.connection.token;
    welcome(step, member);
    hold_back(step, member);
    member.is_of_drained_host = job.holds.drained.contains(member.host());
    if (job.is<Running>()) return consider_late_node(step, member);
    if (!job.is<Forming>()) return stand_by(step, member);
    if (member.hold || member.is_of_drained_host) stand_by(step, member);
    if (!job.round && !job.identity.previous_end.empty())
        step.send(
            member,
            control::Standby{
                "a new job begins; the one before it under this id " + job.identity.previous_end});
}

/// For a node that joined again with another store, so the round's store, which all members use, is
/// closed; or that joined again while the job recovers. None of the node's workers ever ran.
void lose_store(JobStep& step, Member& member) {
    member.become(Member::State::ready);
    depart(
        step,
        member,
        node_cause(
            step.job,
            control::Cause::Kind::node_lost,
            member,
            "node " + member.name() + " joined again with another store"));
    stand_by(step, member);
}

/// The answer to its first join did not reach the node, so the node has done nothing in this job.
void rejoin(JobStep& step, Member& member, const NodeJoined& joined) {
    auto& job = step.job;
    attach(step, member, joined.connection);
    member.join.store_port = joined.join.store_port;
    member.join.socket_addr = joined.join.socket_addr;
    welcome(step, member);
    if (!job.is<Over>()) repeat_drain(step, member.nonce());
    const bool has_new_store = member.group_rank && *member.group_rank == 0 &&
                               job.round->place_of(member).store_port != joined.join.store_port;
    if (job.is<Forming>()) return;
    if (job.is<Over>()) return send_result(step, member);
    if (job.is<Draining>()) {
        if (has_new_store)
            member.become(Member::State::ready);
        else if (member.group_rank)
            stop_unassigned(step, member);
        if (member.state == Member::State::ready) stand_by(step, member);
        return;
    }
    if (!member.group_rank) return stand_by(step, member);
    if (has_new_store || job.is<Recovering>()) return lose_store(step, member);
    step.send(member, job.round->assignment_for(member));
    repeat_save(step, member);
}

void take_up_outside(JobStep& step, Member& member, const control::Resume& resume) {
    const auto& job = step.job;
    step.send(member, step.job.identity.resumed());
    if (resume.state == control::NodeState::ready && !resume.kept.empty() && !job.is<Forming>())
        return stop_held_outside(step, member, resume.assignment ? resume.assignment->round : -1);
    if (resume.state == control::NodeState::ready) {
        member.become(Member::State::ready);
        member.kept = resume.kept;
        if (!job.is<Forming>()) stand_by(step, member);
        return;
    }
    member.become(Member::State::out);
    if (!resume.assignment) return;
    control::Cause cause;
    cause.kind = control::Cause::Kind::node_lost;
    cause.round = resume.assignment->round;
    cause.reason = "round " + std::to_string(cause.round) + " went on without this node";
    step.send(member, control::Stop{cause.round, cause.reason, cause, SIGKILL, {}});
}

void take_up_in_round(JobStep& step, Member& member, const control::Resume& resume) {
    auto& job = step.job;
    const int current = job.round->number;
    const int reported = resume.assignment ? resume.assignment->round : -1;
    const bool is_ready = resume.state == control::NodeState::ready;
    if (reported > current || (reported < current && !is_ready))
        return lose(step, member, "it came back acting in another round");

    step.send(member, step.job.identity.resumed());
    if (reported < current) {
        // The node's assignment to this round was lost with the connection.
        member.kept = resume.kept;
        if (!job.is<Running>()) return stop_unassigned(step, member);
        step.send(member, job.round->assignment_for(member));
        return repeat_save(step, member);
    }
    if (resume.is_recoverable) note_recoverable(step, member);
    if (job.is<Running>()) {
        step.send(member, job.round->assignment_for(member));
        repeat_save(step, member);
    } else if (member.state == Member::State::stopping && !is_ready) {
        stop_member(step, member);
    }
    if (resume.failure) on_failed(step, member, failed_of(resume));
    // Handled before `on_succeeded`, so that ranks that ended because of the save count as such.
    if (resume.save_report) on_save_report(step, member, *resume.save_report);
    step.has_changed = true;
    switch (resume.state) {
        case control::NodeState::starting: break;
        case control::NodeState::running:
            on_started(step, member, {reported, resume.reached});
            break;
        // The node's next message (failed, leave or ready) has the reason.
        case control::NodeState::stopping: break;
        case control::NodeState::ready:
            on_ready(
                step, member, {reported, member.join.store_port, member.join.nproc, resume.kept});
            break;
        case control::NodeState::succeeded: on_succeeded(step, member, reported); break;
    }
}

void take_up(JobStep& step, Member& member, const control::Resume& resume) {
    const auto& job = step.job;
    if (job.is<Over>()) {
        step.send(member, step.job.identity.resumed());
        return send_result(step, member);
    }
    if (job.is<Recovering>()) return recover(step, member, resume);
    const bool has_place = member.group_rank && job.has_current_round();
    if (has_place) return take_up_in_round(step, member, resume);
    take_up_outside(step, member, resume);
}

bool is_token_shown(const std::optional<Nonce>& token, const std::optional<Nonce>& shown) {
    return !token || token == shown;
}

/// Answers a node that is not (or no longer) a member, or that does not show the member's token.
void turn_away(JobStep& step, ConnectionId connection, const control::Resume& resume) {
    if (const auto* over = std::get_if<Over>(&step.job.state)) {
        // The node may retry until the end is recorded.
        if (!over->is_recorded)
            return step.out.push_back(Close{connection, "the job's end is not recorded yet"});
        step.out.push_back(Send{connection, step.job.identity.resumed()});
        const auto found = over->members.find(resume.join.node.nonce);
        const bool was_member =
            found != over->members.end() && is_token_shown(found->second, resume.token);
        auto result = was_member ? over->result : without_text(over->result);
        const int version = control::common_version(resume.join.versions);
        step.out.push_back(Send{connection, result_for(version, std::move(result))});
        return;
    }
    step.out.push_back(Send{connection, control::Lost{"the job went on without this node"}});
    step.out.push_back(Close{connection, "resumed after it was lost"});
}

}  // namespace
}  // namespace connections

void on_joined(JobStep& step, NodeJoined joined) {
    using namespace connections;
    auto& job = step.job;
    const auto connection = joined.connection.connection;
    if (auto* member = job.members.find(joined.join.node.nonce)) {
        if (connection < member->connection.connection) return close_outdated(step, connection);
        // The member has received its welcome, so this join comes from another node that uses its
        // nonce.
        if (member->token && member->has_answered)
            return step.refuse(connection, "a member has this node's name", std::nullopt);
        return rejoin(step, *member, joined);
    }
    if (auto objection = objection_to_join(step, joined.join))
        return step.refuse(connection, std::move(objection->reason), objection->retry);
    auto reach = reach_of(joined.join, joined.connection);
    if (!reach) return step.refuse(connection, reach.error().context, std::nullopt);
    if (job.members.size() >= static_cast<std::size_t>(limits::max_nodes_per_job))
        return step.refuse(connection, "too many nodes", std::nullopt);
    admit(step, std::move(joined), std::move(*reach));
}

void on_resumed(JobStep& step, NodeResumed resumed) {
    using namespace connections;
    auto& job = step.job;
    const auto& resume = resumed.resume;
    const auto connection = resumed.connection.connection;
    auto* member = job.members.find(resume.join.node.nonce);
    if (member == nullptr && job.is<Recovering>()) {
        member = take_in(step, resumed);
        if (member == nullptr) return;
        // Each member reports the token that the previous server gave it; the first report counts.
        member->token = resume.token;
    }
    if (member == nullptr || !is_token_shown(member->token, resume.token))
        return turn_away(step, connection, resume);
    if (connection < member->connection.connection) return close_outdated(step, connection);
    member->has_answered = true;
    attach(step, *member, resumed.connection);
    auto reach = reach_of(resume.join, resumed.connection);
    if (reach) member->reach = std::move(*reach);
    member->join.socket_addr = resume.join.socket_addr;
    member->join.peer_port = resume.join.peer_port;
    if (resume.state == control::NodeState::ready) member->join.store_port = resume.join.store_port;
    take_up(step, *member, resume);
    repeat_drain(step, resume.join.node.nonce);
    repeat_size(step, resume);
    repeat_drained_hosts(step, resume);
    // It may have been lost by what it reported.
    if (const auto* back = job.members.find(resume.join.node.nonce)) send_voters(step, *back);
}

void on_dropped(JobStep& step, Member& member) {
    auto& job = step.job;
    member.is_connected = false;
    const auto* over = std::get_if<Over>(&job.state);
    // The member has the result, or has announced that it leaves: no further event of the member
    // follows.
    if ((over && over->is_recorded) || member.is_leaving()) {
        if (job.is<Recovering>() && member.group_rank) job.round->place_of(member).is_gone = true;
        return remove_member(step, member);
    }
    // The member will come back for the result.
    if (over) return;
    feed_silence(step, Silence::Dropped{member.nonce(), connections::is_behind_proxy(member)});
}

Member& add_member(
    JobStep& step, Connected connection, control::Join join, Reach reach, Member::State state) {
    Member newcomer;
    newcomer.join = std::move(join);
    newcomer.connection = std::move(connection);
    newcomer.reach = std::move(reach);
    newcomer.state = state;
    newcomer.came_at = step.now;
    auto& member = step.job.members.add(std::move(newcomer));
    feed_silence(step, Silence::Appeared{member.nonce(), member.name()});
    return member;
}

}  // namespace ddprun::coordinator
