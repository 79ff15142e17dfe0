// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/coordinator.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/greeting.hpp"
#include "rendezvous/control/versions.hpp"
#include "rendezvous/coordinator/rank_order.hpp"

#include <signal.h>

#include <algorithm>
#include <utility>

namespace ddprun::coordinator {
namespace coordinating {
namespace {

using namespace std::chrono_literals;

/// torch's default for --rdzv-id, shared by all jobs without an id.
constexpr std::string_view default_run_id = "none";
constexpr Duration retry_when_over = 1s;
/// After this time another server may be the leader.
constexpr Duration retry_elsewhere = 1s;
/// The longest part of a scheduler's name, which leaves room for a suffix.
constexpr std::size_t most_given_bytes = 128;

control::Refused not_leading() {
    return {
        .reason = "this server does not lead the job",
        .retry = retry_elsewhere,
        .does_not_lead = true};
}

/// How long nodes are turned away that know another record of a job that has just begun here. A
/// leader that cannot reach this host, elected by voters that these nodes cannot reach, has ended
/// its round by then: it counts the nodes on this side as lost after a lease, and stops the workers
/// on its own side.
Duration longest_wait_for_claim(const control::Settings& settings) {
    return limits::claim_wait + settings.lease + settings.grace;
}

/// The newest epoch that the sender has followed, as stated in its greeting. A server that was not
/// elected ignores epochs.
std::uint64_t known_epoch(const control::Join* greeting) {
    return greeting != nullptr ? greeting->epoch : 0;
}

}  // namespace
}  // namespace coordinating

void Coordinator::handle(Event event, Instant now, std::vector<Effect>& out) {
    const auto first_effect = static_cast<std::ptrdiff_t>(out.size());
    // Checked first: after the end of its term the server must not handle the event as leader.
    if (leadership_.ends_at() && !leadership_.may_act(now))
        step_down("the election was not confirmed in time", 0, out);
    dispatch(event, now, out);
    // Nothing more is accepted on a connection that is being closed.
    std::for_each(out.begin() + first_effect, out.end(), [&](const Effect& effect) {
        if (const auto* close = std::get_if<Close>(&effect)) peers_.erase(close->connection);
    });
    check();
}

void Coordinator::dispatch(Event& event, Instant now, std::vector<Effect>& out) {
    std::visit(
        Overloaded{
            [&](Connected& connected) {
                const auto id = connected.connection;
                peers_.emplace(id, Peer{std::move(connected), std::nullopt, {}});
            },
            [&](Received& received) { on_received(std::move(received), now, out); },
            [&](const Disconnected& gone) { on_disconnected(gone.connection, now, out); },
            [&](const Interrupted& interrupted) { on_interrupted(interrupted, now, out); },
            [&](Led& led) {
                // What was claimed before this server led is claimed again.
                if (led.record && voters_ && voters_->voters.lineage != led.record) voters_.reset();
                auto ends = std::move(led.ends);
                if (leadership_.lead(std::move(led), now)) ends_ = EndRecord::decode(ends);
            },
            [&](const Recorded& recorded) { on_recorded(recorded.number, now, out); },
            [&](VotersChanged& changed) { on_voters_changed(std::move(changed), now, out); },
            [&](WitnessChanged& changed) { on_witness_changed(std::move(changed), now, out); },
            [&](Deposed& deposed) {
                if (leadership_.ends_at()) step_down(std::move(deposed.reason), 0, out);
            },
            [&](DeadlinePassed) { on_deadline(now, out); },
        },
        event);
}

/// The nodes find the next leader and report to it, as after a restart of the server.
void Coordinator::step_down(
    std::string reason,
    std::uint64_t known_epoch,
    std::vector<Effect>& out,
    std::optional<control::Voters> claimed) {
    for (const auto& [id, peer] : peers_)
        out.push_back(Close{id, "this server leads no more: " + reason});
    out.push_back(SteppedDown{
        std::move(reason), leadership_.epoch(), known_epoch, is_idle(), std::move(claimed)});
    leadership_.end();
    peers_.clear();
    jobs_.clear();
    quotas_.clear();
    newest_.clear();
    by_incarnation_.clear();
    ended_.clear();
    unsettled_.clear();
    deadlines_.clear();
    deadline_of_.clear();
    unrecorded_.clear();
    ends_ = {};
}

std::optional<Instant> Coordinator::next_deadline() const {
    if (deadlines_.empty()) return leadership_.ends_at();
    return earliest(leadership_.ends_at(), deadlines_.begin()->first);
}

void Coordinator::on_received(Received received, Instant now, std::vector<Effect>& out) {
    const auto found = peers_.find(received.connection);
    if (found == peers_.end()) return;  // closed after this message was read
    auto& peer = found->second;
    const bool is_known = peer.job.has_value();
    if (auto* claim = std::get_if<control::Claim>(&received.message))
        return on_claim(received.connection, std::move(*claim), now, out);
    if (!leadership_.may_act(now))
        return turn_elsewhere(received, coordinating::not_leading(), out);
    if (options_.is_elected) {
        const auto* greeting = control::greeting_in(received.message);
        // The greeting is for the server of another job, which used this port before and is still
        // named in etcd.
        if (greeting != nullptr && options_.hosted_run_id &&
            greeting->run_id != *options_.hosted_run_id)
            return turn_elsewhere(received, coordinating::not_leading(), out);
        if (greeting != nullptr && greeting->record && is_just_begun(greeting->run_id) &&
            leadership_.waits_for_claim(
                *greeting->record, coordinating::longest_wait_for_claim(greeting->settings), now))
            return turn_elsewhere(
                received,
                {"the job has voters that may elect another server", coordinating::retry_elsewhere},
                out);
        const auto epoch = coordinating::known_epoch(greeting);
        if (epoch > leadership_.epoch() + limits::max_epochs_ahead)
            return out.push_back(Close{received.connection, "no leader had such an epoch"});
        // The election's store was reset to an older state. The next campaign is passed this epoch,
        // which its own must exceed.
        if (epoch > leadership_.epoch())
            return step_down("a node has followed epoch " + std::to_string(epoch), epoch, out);
    }
    if (peer.has_commanded) return complain(peer, "a message after a command", now, out);
    if (auto* join = std::get_if<control::Join>(&received.message)) {
        if (is_known) return complain(peer, "a second join", now, out);
        return on_join(peer, std::move(*join), now, out);
    }
    if (auto* resume = std::get_if<control::Resume>(&received.message)) {
        if (is_known) return complain(peer, "a second resume", now, out);
        return on_resume(peer, std::move(*resume), now, out);
    }
    if (auto* command = std::get_if<control::JobCommand>(&received.message)) {
        if (is_known) return complain(peer, "a command of a member", now, out);
        return on_command(peer, std::move(*command), now, out);
    }
    if (!is_known) return complain(peer, "the first message must be join or resume", now, out);
    pass(
        *peer.job,
        Job::Received{received.connection, peer.nonce, std::move(received.message)},
        now,
        out);
}

/// The election may name another server now. A node with workers queries it again at once, as its
/// connection is closed.
void Coordinator::turn_elsewhere(
    const Received& received, control::Refused refused, std::vector<Effect>& out) const {
    const auto* greeting = control::greeting_in(received.message);
    if (greeting != nullptr && voters_ && greeting->run_id == voters_->run_id &&
        control::common_version(greeting->versions) >= control::voters_since)
        out.push_back(Send{received.connection, voters_->voters});
    if (std::holds_alternative<control::Join>(received.message))
        return refuse(received.connection, std::move(refused), out);
    if (std::holds_alternative<control::JobCommand>(received.message))
        out.push_back(Send{
            received.connection,
            control::JobCommandAnswer{
                control::JobCommandAnswer::Outcome::not_possible,
                refused.reason + " now: give the address of the node that does"}});
    out.push_back(Close{received.connection, std::move(refused.reason)});
}

void Coordinator::on_join(Peer& peer, control::Join join, Instant now, std::vector<Effect>& out) {
    const auto connection = peer.connected.connection;
    if (options_.hosted_run_id && join.run_id != *options_.hosted_run_id)
        return refuse(
            connection,
            {"the ddprun that serves here does so for job '" + *options_.hosted_run_id +
                 "' only, not for '" + join.run_id + "'",
             std::nullopt},
            out);
    if (join.settings.is_static && !options_.hosted_run_id)
        return refuse(
            connection,
            {"this is a daemon; with static rendezvous (--master-addr) node 0 serves: use "
             "--rdzv-backend=c10d --rdzv-endpoint here",
             std::nullopt},
            out);
    if (interrupted_)
        return refuse(connection, {"the server ends: " + interrupted_->reason, std::nullopt}, out);

    const auto newest = newest_.find(name_of(peer, join));
    std::optional<JobId> id;
    if (newest != newest_.end() && !jobs_.at(newest->second).is_over()) id = newest->second;
    if (id) {
        if (auto objection = objection_to_incarnation(*id, join, now, out))
            return refuse(connection, std::move(*objection), out);
    } else {
        if (auto why = reason_to_wait(join, now); !why.empty())
            return refuse(connection, {std::move(why), coordinating::retry_elsewhere}, out);
        if (auto objection = objection_to_new_job(peer, join))
            return refuse(connection, std::move(*objection), out);
        id = begin_job(peer, join, now);
    }
    if (!jobs_.at(*id).has_node(join.node.nonce))
        if (auto why = objection_to_count(peer, JobQuotas::Request::node); !why.empty())
            return refuse(connection, {std::move(why), std::nullopt}, out);
    if (jobs_.at(*id).is_nameless()) name(*id, join);
    const auto nonce = join.node.nonce;
    pass(*id, Job::Joined{peer.connected, std::move(join)}, now, out);
    bind(peer, *id, nonce);
}

/// Why the join must wait: an earlier leader's job continues if one of its nodes comes back in
/// time. Empty when no such node is awaited.
std::string Coordinator::reason_to_wait(const control::Join& join, Instant now) const {
    const auto until = leadership_.awaits_members_until(join.settings.lease);
    if (!until || now >= *until) return {};
    return "the nodes of job '" + join.run_id + "', whose leader is gone, have " +
           seconds_text(std::chrono::ceil<std::chrono::seconds>(*until - now)) + " to come back";
}

std::optional<control::Refused> Coordinator::objection_to_incarnation(
    JobId id, const control::Join& join, Instant now, std::vector<Effect>& out) {
    using namespace coordinating;
    const auto& job = jobs_.at(id);
    const auto& identity = job.identity();
    const bool is_of_other_user =
        join.run_id == default_run_id && !options_.hosted_run_id && job.user() != join.node.user;
    if (is_of_other_user)
        return control::Refused{
            "job 'none' here belongs to user id " + std::to_string(job.user()) +
                ", not to user id " + std::to_string(join.node.user) + ": give --rdzv-id a name",
            std::nullopt};
    // A join without an incarnation refers to the running job.
    if (!join.incarnation || join.incarnation == identity.given) return std::nullopt;
    if (!identity.given)
        return control::Refused{
            "job '" + join.run_id + "' runs without an incarnation, this node brings '" +
                *join.incarnation + "': start all nodes alike",
            std::nullopt};
    if (comes_before_naturally(*join.incarnation, *identity.given))
        return control::Refused{
            "job '" + join.run_id + "' has been started again since: its incarnation is " +
                *identity.given + ", this node belongs to " + *join.incarnation,
            std::nullopt};
    supersede(id, *join.incarnation, now, out);
    return control::Refused{
        "the job's earlier incarnation " + *identity.given + " is being ended", retry_when_over};
}

void Coordinator::supersede(
    JobId id, const std::string& incarnation, Instant now, std::vector<Effect>& out) {
    const auto reason = "superseded by incarnation " + incarnation;
    pass(id, Job::Interrupted{control::Cause::Kind::superseded, SIGTERM, reason}, now, out);
}

std::optional<control::Refused> Coordinator::objection_to_new_job(
    const Peer& peer, const control::Join& join) const {
    using namespace coordinating;
    const auto newest = newest_.find(name_of(peer, join));
    if (join.incarnation && ends_.find(*join.incarnation) != nullptr)
        return control::Refused{
            "incarnation " + *join.incarnation + " of job '" + join.run_id + "' is over",
            std::nullopt};
    // An elected server also serves the next job while its node leads.
    const bool is_for_one_job = options_.hosted_run_id && !options_.is_elected;
    if (is_for_one_job && newest == newest_.end() && !ended_.empty())
        return control::Refused{
            "job '" + join.run_id + "' of this ddprun is over", retry_when_over};
    const auto* last = newest == newest_.end() ? nullptr : &jobs_.at(newest->second);
    if (last && last->is_over() &&
        (is_for_one_job || last->unrecorded_result() || last->is_changing_voters()))
        // Three reasons to wait. A hosted server is about to exit, and then the node can listen at
        // the port itself. The next leader would drop an end that is not recorded yet if it got a
        // newer job first. Voters are changed once at a time.
        return control::Refused{
            "job '" + join.run_id + "' of this ddprun " + last->ending(), retry_when_over};
    if (last && join.incarnation) {
        const auto& job = *last;
        if (const auto& given = job.identity().given; job.is_over() && given) {
            // A late node of the job that just ended must not begin another job.
            if (*join.incarnation == *given || comes_before_naturally(*join.incarnation, *given))
                return control::Refused{
                    "incarnation " + *join.incarnation + " of job '" + join.run_id + "' is over; " +
                        "the last one " + job.ending(),
                    std::nullopt};
            if (!job.is_settled())
                return control::Refused{
                    "nodes of the job's earlier incarnation are still there", retry_when_over};
        }
    }
    if (join.incarnation) {
        // A job older than the newest one may still be kept; no other job may have its incarnation.
        const auto kept = by_incarnation_.find({name_of(peer, join), *join.incarnation});
        if (kept != by_incarnation_.end())
            return control::Refused{
                "incarnation " + *join.incarnation + " of job '" + join.run_id +
                    "' is kept here already: it " + jobs_.at(kept->second).ending(),
                std::nullopt};
    }
    if (auto why = objection_to_count(peer, JobQuotas::Request::job); !why.empty())
        return control::Refused{std::move(why), std::nullopt};
    return std::nullopt;
}

std::string Coordinator::objection_to_count(const Peer& peer, JobQuotas::Request request) const {
    return quotas_.objection_to({peer.connected.peer_network, peer.connected.tenant}, request);
}

Coordinator::JobId Coordinator::begin_job(
    const Peer& peer, const control::Join& join, Instant now) {
    Job::Identity identity;
    identity.run_id = join.run_id;
    identity.network = peer.connected.peer_network;
    identity.tenant = peer.connected.tenant;
    identity.incarnation =
        join.incarnation.value_or(unused_incarnation(identity.name(), join.node.nonce.to_string()));
    identity.given = join.incarnation;
    // When servers are elected, another server follows this one.
    identity.is_hosted = options_.hosted_run_id.has_value() && !options_.is_elected;
    identity.epoch = leadership_.epoch();
    identity.record = leadership_.record();
    identity.voter = options_.voter;
    if (const auto previous = newest_.find(identity.name()); previous != newest_.end())
        identity.previous_end = jobs_.at(previous->second).ending();
    return add_job(Job{std::move(identity), join, now});
}

Coordinator::JobId Coordinator::add_job(Job job) {
    const auto id = next_job_++;
    const auto& identity = job.identity();
    // Those that have elected this leader.
    if (voters_ && voters_->run_id == identity.run_id && voters_->voters.lineage == identity.record)
        job.know(voters_->voters);
    job.know_witness(witness_);
    newest_[identity.name()] = id;
    by_incarnation_[{identity.name(), identity.incarnation}] = id;
    quotas_.add({identity.network, identity.tenant});
    jobs_.emplace(id, std::move(job));
    return id;
}

/// A member of the recovered job counts as lost whether it reports the old name or the new one,
/// since the new incarnation is another job.
void Coordinator::name(JobId id, const control::Join& join) {
    auto& job = jobs_.at(id);
    auto base = join.node.nonce.to_string();
    if (const auto& given = job.identity().given)
        base = given->substr(0, coordinating::most_given_bytes) + "-" + base;
    const auto name = job.identity().name();
    auto incarnation = unused_incarnation(name, base);
    by_incarnation_[{name, incarnation}] = id;
    job.name(std::move(incarnation));
}

/// `base` has the first node's nonce. A node whose join was never answered joins again with the
/// same nonce, and the job that its first join began may by then be over and forgotten.
std::string Coordinator::unused_incarnation(const JobName& name, const std::string& base) const {
    auto incarnation = base;
    for (int life = 2;
         by_incarnation_.count({name, incarnation}) > 0 || has_ended(name, incarnation);
         ++life)
        incarnation = base + "-" + std::to_string(life);
    return incarnation;
}

void Coordinator::on_resume(
    Peer& peer, control::Resume resume, Instant now, std::vector<Effect>& out) {
    const auto connection = peer.connected.connection;
    const auto known = by_incarnation_.find({name_of(peer, resume.join), resume.incarnation});
    if (known == by_incarnation_.end()) {
        // The job ended under an earlier leader: the result that it sent to other nodes also holds
        // for this one.
        if (const auto* result = ends_.find(resume.incarnation)) {
            out.push_back(
                Send{connection, control::Resumed{leadership_.epoch(), leadership_.record()}});
            out.push_back(Send{connection, *result});
            return;
        }
        auto why = reason_it_is_lost(peer, resume);
        if (why.empty()) {
            // The node's workers are still running, so it retries until its fence; there may be
            // room by then.
            if (auto full = objection_to_count(peer, JobQuotas::Request::job); !full.empty())
                return out.push_back(Close{connection, std::move(full)});
            why = objection_to_recovery(peer, resume, now, out);
        }
        if (!why.empty()) {
            out.push_back(Send{connection, control::Lost{std::move(why)}});
            out.push_back(Close{connection, "resumed an unknown job"});
            return;
        }
    }
    const auto id =
        known == by_incarnation_.end() ? begin_recovery(peer, resume, now) : known->second;
    const auto nonce = resume.join.node.nonce;
    const auto& job = jobs_.at(id);
    if (job.takes_in() && !job.has_node(nonce))
        if (auto full = objection_to_count(peer, JobQuotas::Request::node); !full.empty())
            return out.push_back(Close{connection, std::move(full)});
    pass(id, Job::Resumed{peer.connected, std::move(resume)}, now, out);
    bind(peer, id, nonce);
}

/// A server that was restarted has no jobs: it rebuilds a job from its members' reports. A server
/// inside a `ddprun` does not, since it only serves the job that it began itself.
std::string Coordinator::reason_it_is_lost(const Peer& peer, const control::Resume& resume) const {
    const auto& join = resume.join;
    if ((options_.hosted_run_id && !options_.is_elected) || interrupted_ || join.settings.is_static)
        return "the server does not know this job (it was started again, or the job ended long "
               "ago)";
    if (has_ended(name_of(peer, join), resume.incarnation)) return "the job ended long ago";
    return {};
}

std::string Coordinator::objection_to_recovery(
    const Peer& peer, const control::Resume& resume, Instant now, std::vector<Effect>& out) {
    const auto& join = resume.join;
    const auto newest = newest_.find(name_of(peer, join));
    if (newest == newest_.end()) return {};
    const auto id = newest->second;
    const auto& job = jobs_.at(id);
    const auto& other = job.identity();
    if (join.incarnation && other.given) {
        if (!comes_before_naturally(*other.given, *join.incarnation))
            return "job '" + join.run_id + "' has been started again since, as incarnation " +
                   *other.given;
        if (!job.is_over()) supersede(id, *join.incarnation, now, out);
        return {};
    }
    if (job.is_over()) return {};
    if (!job.is_young())
        return "another job runs under the id '" + join.run_id + "' since the server was started " +
               "again";
    // Dissolves a job of nodes that joined before the first member of the running job came back.
    pass(
        id,
        Job::Dissolved{"job '" + join.run_id + "' runs already, and its nodes are coming back"},
        now,
        out);
    return {};
}

Coordinator::JobId Coordinator::begin_recovery(
    const Peer& peer, const control::Resume& resume, Instant now) {
    Job::Identity identity;
    identity.run_id = resume.join.run_id;
    identity.network = peer.connected.peer_network;
    identity.tenant = peer.connected.tenant;
    identity.incarnation = resume.incarnation;
    identity.given = resume.join.incarnation;
    identity.epoch = leadership_.epoch();
    identity.record = leadership_.record();
    identity.voter = options_.voter;
    return add_job(Job{std::move(identity), resume, now});
}

/// If the job accepted the node, this is its connection from now on.
void Coordinator::bind(Peer& peer, JobId id, const Nonce& nonce) {
    const auto job = jobs_.find(id);
    if (job == jobs_.end() || !job->second.is_spoken_for(nonce, peer.connected.connection)) return;
    peer.job = id;
    peer.nonce = nonce;
}

void Coordinator::on_disconnected(ConnectionId connection, Instant now, std::vector<Effect>& out) {
    const auto found = peers_.find(connection);
    if (found == peers_.end()) return;
    const auto job = found->second.job;
    const auto nonce = found->second.nonce;
    peers_.erase(found);
    if (job) pass(*job, Job::Dropped{connection, nonce}, now, out);
}

void Coordinator::on_interrupted(
    const Interrupted& interrupted, Instant now, std::vector<Effect>& out) {
    if (interrupted_) return;
    interrupted_ = interrupted;
    std::vector<JobId> all;
    for (const auto& [id, job] : jobs_)
        all.push_back(id);
    for (const auto id : all)
        pass(
            id,
            Job::Interrupted{
                control::Cause::Kind::cancelled,
                interrupted.signal,
                interrupted.reason,
                interrupted.grace},
            now,
            out);
}

void Coordinator::on_deadline(Instant now, std::vector<Effect>& out) {
    std::vector<JobId> due;
    for (const auto& [at, id] : deadlines_) {
        if (at > now) break;
        due.push_back(id);
    }
    for (const auto id : due) {
        if (jobs_.at(id).is_forgettable(now))
            forget(id);
        else
            pass(id, Job::DeadlinePassed{}, now, out);
    }
}

void Coordinator::pass(JobId id, Job::Event event, Instant now, std::vector<Effect>& out) {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) return;  // the job was forgotten while this connection was still open
    auto& job = found->second;
    const auto node_count = job.node_count();
    job.handle(std::move(event), now, out);
    quotas_.count_nodes(job.identity().tenant, node_count, job.node_count());

    record_end(id, out);
    if (job.is_empty()) return forget(id);
    if (job.is_settled())
        unsettled_.erase(id);
    else
        unsettled_.insert(id);
    const auto deadline = job.next_deadline();
    const auto before = deadline_of_.find(id);
    const bool is_same =
        before == deadline_of_.end() ? !deadline : deadline && *deadline == before->second;
    if (is_same) return;
    if (before != deadline_of_.end()) {
        deadlines_.erase({before->second, id});
        deadline_of_.erase(before);
    }
    if (!deadline) return;
    deadlines_.emplace(*deadline, id);
    deadline_of_.emplace(id, *deadline);
}

void Coordinator::refuse(
    ConnectionId connection, control::Refused refused, std::vector<Effect>& out) {
    auto reason = "refused: " + refused.reason;
    out.push_back(Send{connection, std::move(refused)});
    out.push_back(Close{connection, std::move(reason)});
}

/// The end of the connection will not be reported to its job any more, so the job is notified here.
void Coordinator::complain(
    const Peer& peer, std::string reason, Instant now, std::vector<Effect>& out) {
    const auto connection = peer.connected.connection;
    out.push_back(Send{connection, control::ProtocolError{reason}});
    out.push_back(Close{connection, std::move(reason)});
    if (peer.job) pass(*peer.job, Job::Dropped{connection, peer.nonce}, now, out);
}

bool Coordinator::are_ledgers_complete(Instant now) const {
    return std::all_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
        return entry.second.is_ledger_complete(now);
    });
}

void Coordinator::check() const {
    require(deadlines_.size() == deadline_of_.size(), "each job wants to be woken once");
    require(unsettled_.size() <= jobs_.size(), "only jobs are unsettled");
}

}  // namespace ddprun::coordinator
