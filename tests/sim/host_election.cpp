// SPDX-License-Identifier: Apache-2.0
// A host whose server is a candidate in an election: replaces agent/runner/rendezvous_access,
// election and agent_runner of real programs. The same machines as there decide which server leads,
// until when, and what follows.
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/control/greeting.hpp"
#include "rendezvous/control/text.hpp"
#include "tests/sim/cluster.hpp"
#include "tests/sim/host.hpp"

#include <optional>
#include <utility>

namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t server_port = 29'000;

}  // namespace

void Host::become_candidate() {
    const bool votes = cluster_.options().engine == Cluster::Engine::voters;
    const auto nonce = (votes ? nonce_ : make_nonce(world_.random())).to_string();
    const auto* const engine = votes ? "the voters" : "etcd";
    candidate_ = std::make_unique<Candidate>(
        world_,
        witness::LeaderLease{{engine, nonce, votes ? limits::voted_ttl : limits::etcd_ttl}},
        [this](auto& effect) { perform(effect); });
    if (!votes) return;
    candidate_->voting = std::make_unique<Voting>(cluster_, name_, addr_, run_id_, nonce_);
    candidate_->voting->on_over([this] { depart(candidate_->departure.released()); });
    candidate_->voting->on_accepted([this] { note_succession(); });
    if (name_ == cluster_.typed_endpoints().front()) candidate_->voting->create();
}

const Voting* Host::voter() const {
    const bool is_there =
        is_alive_ && candidate_ && candidate_->voting && !candidate_->voting->is_frozen();
    return is_there ? candidate_->voting.get() : nullptr;
}

/// Whether its server may become the leader: that of another node could not be found by those that
/// know the job by its endpoint.
bool Host::may_campaign() const {
    const auto& voting = candidate_->voting;
    return !voting || voting->is_voter() || name_ == cluster_.typed_endpoints().front();
}

Server* Host::own_server() {
    return candidate_ ? candidate_->server.get() : nullptr;
}

bool Host::is_leading() const {
    return is_alive_ && candidate_ && candidate_->server && candidate_->server->is_up() &&
           candidate_->server->coordinator().leader(world_.now()).has_value();
}

/// Another thread of the same process posts to the agent's.
void Host::post_to_agent(std::function<void()> action) {
    world_.after(0s, [this, action = std::move(action)] {
        if (is_alive_) action();
    });
}

void Host::perform(witness::LeaderLease::Effect& effect) {
    using Lease = witness::LeaderLease;
    auto& own = *candidate_;
    std::visit(
        Overloaded{
            [&](const Lease::Ask& ask) { ask_engine(ask); },
            [&](Lease::OpenServer) {
                if (!may_campaign())
                    return own.lease.post(Lease::ServerOpened{
                        Failure{system_code(EPERM), "this node does not vote"}});
                if (!own.server) open_server();
                own.lease.post(Lease::ServerOpened{Endpoint{addr_, server_port}.to_string()});
            },
            [&](const Lease::Found& found) {
                const auto endpoint = parse_endpoint(found.leader.endpoint, 0);
                require(endpoint.has_value(), "leaders write their endpoint");
                open_sought(cluster_.host_at(endpoint->host));
            },
            [&](const Lease::Elected& elected) {
                note("leads in epoch " + std::to_string(elected.epoch));
                cluster_.checkers().on_elected(
                    {name_, run_id_, elected.epoch, cluster_.etcd().erased_count()});
                if (own.voting && own.voting->shared_record())
                    own.server->voters_changed(*own.voting->known());
                own.server->lead(
                    {elected.epoch,
                     elected.until,
                     elected.led_before,
                     elected.ends,
                     addr_,
                     own.voting ? std::optional{own.voting->known()->lineage} : std::nullopt});
                own.is_successor = own.voting && !elected.ends.empty();
                note_succession();
                open_sought(this);
                if (cluster_.options().has_witness) find_witness();
                post_to_agent([this] { depart(candidate_->departure.elected()); });
            },
            [&](const Lease::Extended& extended) {
                own.server->lead({extended.epoch, extended.until});
            },
            [&](const Lease::Recorded& recorded) { own.server->recorded(recorded.number); },
            [&](const Lease::Deposed& deposed) {
                own.server->depose(deposed.reason);
                note_succession();
            },
            [&](const Lease::NotFound& not_found) { fail_sought(not_found.reason); },
            [&](Lease::Released) { world_.after(0s, [this] { leave(); }); },
        },
        effect);
}

void Host::ask_engine(const witness::LeaderLease::Ask& ask) {
    using Lease = witness::LeaderLease;
    if (candidate_->voting)
        return candidate_->voting->ask(
            ask.what, [this, ask](const Result<witness::LeaseAnswer>& answer) {
                candidate_->lease.post(Lease::Answered{ask.request, answer});
            });
    const auto keys = witness::etcd::keys_of("/ddprun", run_id_);
    const auto answered = [this, ask](const Result<std::string>& body) {
        if (!is_alive_) return;
        candidate_->lease.post(Lease::Answered{
            ask.request, body ? witness::etcd::read_answer(ask.what, *body) : body.error()});
    };
    cluster_.etcd().ask(name_, witness::etcd::write(keys, ask.what), answered);
}

/// A greeting has the record of the voters that this process knows.
control::AgentMessage Host::with_record(control::AgentMessage message) const {
    auto* greeting = control::greeting_in(message);
    if (greeting != nullptr && candidate_ && candidate_->voting)
        greeting->record = candidate_->voting->shared_record();
    return message;
}

/// The coordinator waits for the answer, so it is tried as long as this server leads.
void Host::change_voters(std::uint64_t epoch, std::vector<control::VoterPlace> voters) {
    const auto& server = candidate_->server->coordinator();
    if (server.epoch() != epoch || !server.leader(world_.now())) return;
    const int turn = ++candidate_->voters_turn;
    candidate_->voting->change_voters(
        {epoch, voters}, [this, epoch, voters, turn](const Result<control::Voters>& changed) {
            if (changed) {
                note("has " + std::to_string(changed->set.voters.size()) + " voters");
                note_succession();
                return candidate_->server->voters_changed(*changed);
            }
            note("does not change the voters: " + changed.error().describe());
            later(limits::voters_retry, [this, epoch, voters, turn] {
                if (voter() != nullptr && candidate_->voters_turn == turn)
                    change_voters(epoch, voters);
            });
        });
}

void Host::open_server() {
    Server::Options options{addr_, name_, run_id_};
    options.is_elected = true;
    if (candidate_->voting) options.voter = candidate_->voting->own_voter();
    options.on_change_voters = [this](const coordinator::ChangeVoters& change) {
        post_to_agent([this, change] { change_voters(change.epoch, change.voters); });
    };
    options.on_record = [this](const coordinator::Record& record) {
        post_to_agent([this, record] {
            candidate_->lease.post(
                witness::LeaderLease::EndDecided{record.epoch, record.number, record.ends});
        });
    };
    options.on_stepped_down = [this](const coordinator::SteppedDown& down) {
        note("leads no more: " + down.reason);
        post_to_agent([this, down] {
            auto& own = *candidate_;
            note_succession();
            if (own.leaving)
                own.lease.post(witness::LeaderLease::Left{*own.leaving && down.is_idle});
            else
                own.lease.post(witness::LeaderLease::SteppedDown{down.epoch, down.known_epoch});
        });
    };
    options.on_act = [this](const control::ServerMessage& message, const std::string& to) {
        // A server that does not lead any more names the voters too.
        if (std::holds_alternative<control::Voters>(message)) return;
        if (std::holds_alternative<control::Lost>(message))
            cluster_.checkers().on_lost({to, cluster_.host(to).incarnation_});
        cluster_.checkers().on_act(
            {name_,
             run_id_,
             candidate_->server->coordinator().epoch(),
             cluster_.recorded_epoch(run_id_),
             cluster_.etcd().erased_count(),
             control::describe(message),
             cluster_.other_leader(*this)});
    };
    candidate_->server = std::make_unique<Server>(world_, std::move(options));
}

void Host::seek(int number, bool is_first_try) {
    auto& own = *candidate_;
    own.sought = number;
    if (own.lease.machine().is_leading()) return open(number, own_server(), name_);
    const bool has_found_none = std::exchange(own.has_found_none, false);
    if (own.voting && (!own.voting->known() || has_found_none)) return find_voters(0);
    own.lease.post(witness::LeaderLease::Sought{is_first_try});
}

void Host::note_succession() {
    auto& own = *candidate_;
    if (!own.voting) return;
    auto events = own.succession.update(
        {own.lease.machine().is_leading(), own.voting->shared_record().has_value()});
    for (auto& event : events)
        post_to_agent([this, event = std::move(event)] { agent_.post(event); });
}

/// Again and again while it leads, since a witness that is started again is another voter.
void Host::find_witness() {
    if (voter() == nullptr || !candidate_->lease.machine().is_leading()) return;
    candidate_->voting->find_witness([this](std::optional<control::VoterPlace> witness) {
        if (voter() != nullptr && is_leading())
            candidate_->server->witness_changed(std::move(witness));
    });
    later(limits::claim_interval, [this] { find_witness(); });
}

/// Asks the hosts at the typed endpoints, one after the other until one answers, which voters the
/// job has.
void Host::find_voters(std::size_t asked) {
    const auto& endpoints = cluster_.typed_endpoints();
    auto& own = *candidate_;
    if (asked == endpoints.size() && !own.voting->known())
        return fail_sought("no node at the endpoints knows the voters");
    if (asked == endpoints.size()) return own.lease.post(witness::LeaderLease::Sought{false});
    const auto& place = endpoints[own.next_place++ % endpoints.size()];
    own.voting->ask_for_voters(place, [this, asked](bool is_found) {
        if (voter() == nullptr) return;
        if (!is_found) return find_voters(asked + 1);
        candidate_->lease.post(witness::LeaderLease::Sought{false});
    });
}

/// Opens the connection to the leader, unless the attempt has been abandoned meanwhile.
void Host::open_sought(Host* leader) {
    const auto found = links_.find(candidate_->sought);
    if (found == links_.end() || found->second.is_opened) return;
    open(candidate_->sought, leader->own_server(), leader->name());
}

void Host::fail_sought(const std::string& reason) {
    const auto found = links_.find(candidate_->sought);
    if (found == links_.end() || found->second.is_opened) return;
    candidate_->has_found_none = true;
    const bool is_refused = candidate_->voting && candidate_->voting->is_record_lost();
    const auto error = is_refused ? Agent::ConnectError::refused : Agent::ConnectError::no_answer;
    world_.after(0s, [this, number = found->first, error, reason] {
        if (is_alive_) give_up_link(number, error, reason);
    });
}

// ---- the end of the process ---------------------------------------------------------------------

/// Also if it has interrupted its server: others may still need that for the result.
bool Host::is_job_over() const {
    return agent::is_over(*report_) || candidate_->is_interrupted;
}

agent::Departure::Facts Host::departure_facts() const {
    const auto& own = *candidate_;
    const bool votes = own.voting && own.voting->is_voter() && !own.voting->is_over();
    const bool is_hosting = own.lease.machine().is_leading();
    return {is_hosting, is_job_over(), votes, own.is_successor && is_hosting};
}

void Host::depart(agent::Departure::Step step) {
    using Step = agent::Departure::Step;
    auto& own = *candidate_;
    switch (step) {
        case Step::none: return;
        case Step::wait_for_nodes:
            if (own.server && own.server->is_idle()) depart(own.departure.server_idle());
            return later(cluster_.options().settings.lease + limits::drain_margin, [this] {
                if (is_alive_) depart(candidate_->departure.waited());
            });
        case Step::wait_for_release:
            watch_leader();
            return later(cluster_.options().settings.lease + limits::drain_margin, [this] {
                if (is_alive_ && candidate_->departure.waits_for_release())
                    depart(candidate_->departure.waited());
            });
        case Step::release_server: {
            const bool is_over = is_job_over();
            if (own.lease.machine().is_leading()) {
                // First the server, then its key.
                own.leaving = is_over;
                own.server->depose("its node leaves");
            } else {
                own.lease.post(witness::LeaderLease::Left{is_over});
            }
            return later(limits::etcd_answer_timeout, [this] { leave(); });
        }
        case Step::leave: return leave();
    }
}

void Host::watch_leader() {
    later(agent::leader_watch_interval, [this] {
        if (!is_alive_ || !candidate_->departure.waits_for_release()) return;
        if (candidate_->voting->misses_leader() && !candidate_->lease.machine().is_leading())
            candidate_->lease.post(witness::LeaderLease::Sought{false});
        watch_leader();
    });
}

/// The process exits.
void Host::leave() {
    if (!is_alive_) return;
    candidate_->has_left = true;
    candidate_->lease.freeze();
    if (candidate_->voting) candidate_->voting->freeze();
    if (own_server() && own_server()->is_up()) own_server()->kill();
}

void Host::look_at_own_server() {
    if (!is_alive_ || !own_server() || !own_server()->is_up()) return;
    const bool is_idle = own_server()->is_idle();
    const bool was_idle = std::exchange(candidate_->was_idle, is_idle);
    if (is_idle && !was_idle) depart(candidate_->departure.server_idle());
}

}  // namespace ddprun::sim
