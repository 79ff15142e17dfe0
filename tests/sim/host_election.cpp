// SPDX-License-Identifier: Apache-2.0
// A host whose server is a candidate in an election: replaces agent/runner/rendezvous_access,
// election and agent_runner of real programs. The same machines as there decide which server leads,
// until when, and what follows.
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/control/text.hpp"
#include "tests/sim/cluster.hpp"
#include "tests/sim/host.hpp"

#include <utility>

namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t server_port = 29'000;

}  // namespace

void Host::become_candidate() {
    const auto nonce = make_nonce(world_.random()).to_string();
    candidate_ = std::make_unique<Candidate>(
        world_, witness::LeaderLease{{"etcd", nonce, limits::etcd_ttl}}, [this](auto& effect) {
            perform(effect);
        });
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
            [&](const Lease::Ask& ask) {
                const auto keys = witness::etcd::keys_of("/ddprun", run_id_);
                const auto answered = [this, ask](const Result<std::string>& body) {
                    if (!is_alive_) return;
                    candidate_->lease.post(Lease::Answered{
                        ask.request,
                        body ? witness::etcd::read_answer(ask.what, *body) : body.error()});
                };
                cluster_.etcd().ask(name_, witness::etcd::write(keys, ask.what), answered);
            },
            [&](Lease::OpenServer) {
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
                own.server->lead(
                    {elected.epoch, elected.until, elected.led_before, elected.ends, addr_});
                open_sought(this);
            },
            [&](const Lease::Extended& extended) {
                own.server->lead({extended.epoch, extended.until});
            },
            [&](const Lease::Recorded& recorded) { own.server->recorded(recorded.number); },
            [&](const Lease::Deposed& deposed) { own.server->depose(deposed.reason); },
            [&](const Lease::NotFound& not_found) { fail_sought(not_found.reason); },
            [&](Lease::Released) { world_.after(0s, [this] { leave(); }); },
        },
        effect);
}

void Host::open_server() {
    Server::Options options{addr_, name_, run_id_};
    options.is_elected = true;
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
            if (own.leaving)
                own.lease.post(witness::LeaderLease::Left{*own.leaving && down.is_idle});
            else
                own.lease.post(witness::LeaderLease::SteppedDown{down.epoch, down.known_epoch});
        });
    };
    options.on_act = [this](const control::ServerMessage& message, const std::string& to) {
        if (std::holds_alternative<control::Lost>(message))
            cluster_.checkers().on_lost({to, cluster_.host(to).incarnation_});
        const auto leader = cluster_.etcd().leader(run_id_);
        cluster_.checkers().on_act(
            {name_,
             run_id_,
             candidate_->server->coordinator().epoch(),
             leader ? leader->epoch : 0,
             cluster_.etcd().erased_count(),
             control::describe(message)});
    };
    candidate_->server = std::make_unique<Server>(world_, std::move(options));
}

void Host::seek(int number, bool is_first_try) {
    auto& own = *candidate_;
    own.sought = number;
    if (own.lease.machine().is_leading()) return open(number, own_server(), name_);
    own.lease.post(witness::LeaderLease::Sought{is_first_try});
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
    world_.after(0s, [this, number = found->first, reason] {
        if (is_alive_) give_up_link(number, Agent::ConnectError::no_answer, reason);
    });
}

// ---- the end of the process ---------------------------------------------------------------------

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
        case Step::release_server: {
            const bool is_over = agent::is_over(*report_);
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

/// The process exits.
void Host::leave() {
    if (!is_alive_) return;
    candidate_->lease.freeze();
    if (own_server() && own_server()->is_up()) own_server()->kill();
}

void Host::look_at_own_server() {
    if (!is_alive_ || !own_server() || !own_server()->is_up()) return;
    const bool is_idle = own_server()->is_idle();
    const bool was_idle = std::exchange(candidate_->was_idle, is_idle);
    if (is_idle && !was_idle) depart(candidate_->departure.server_idle());
}

}  // namespace ddprun::sim
