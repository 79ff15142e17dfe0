// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/server.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/control/versions.hpp"

#include <utility>

namespace ddprun::sim {

using coordinator::Coordinator;

Server::Server(World& world, Options options) : world_(world), options_(std::move(options)) {
    begin();
}

void Server::begin() {
    is_up_ = true;
    driven_ = std::make_unique<Driven<Coordinator>>(
        world_,
        Coordinator{
            {options_.hosted_run_id,
             options_.is_elected,
             limits::max_nodes_per_tenant,
             options_.voter}},
        [this](coordinator::Effect& effect) { perform(effect); });
}

void Server::accept(
    const std::shared_ptr<Link>& link, const std::string& peer_addr, int peer_port) {
    if (is_paused_) {
        waiting_.push_back({link, peer_addr, peer_port});
        return;
    }
    // A caller that waited may have closed its link.
    if (link->is_closed(Link::server)) return;
    const ConnectionId id{next_connection_++};
    connections_[id].link = link;
    link->attach(
        Link::server,
        {[this, id](const std::string& bytes) { received(id, bytes); },
         [this, id] {
             if (connections_.erase(id) == 1) driven_->post(Coordinator::Disconnected{id});
         }});
    link->send(
        Link::server,
        control::encode(control::ServerMessage{control::Hello{control::own_versions()}}));
    driven_->post(Coordinator::Connected{
        id,
        peer_addr,
        peer_addr + ":" + std::to_string(peer_port),
        options_.addr,
        {},
        make_nonce(token_random_)});
}

void Server::received(ConnectionId id, const std::string& bytes) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    found->second.decoder.append(bytes);
    for (;;) {
        const auto connection = connections_.find(id);
        if (connection == connections_.end()) return;
        auto message = connection->second.decoder.next();
        require(message.has_value(), "agents speak the protocol");
        if (!*message) return;
        driven_->post(Coordinator::Received{id, std::move(**message)});
    }
}

void Server::perform(coordinator::Effect& effect) {
    require(
        driven_->machine().are_ledgers_complete(world_.now()),
        "each moment of a job is in one phase");
    std::visit(
        Overloaded{
            [&](const coordinator::Send& message) {
                const bool is_act =
                    !std::holds_alternative<control::Refused>(message.message) &&
                    !std::holds_alternative<control::ProtocolError>(message.message);
                const auto to = connections_.find(message.connection);
                if (is_act && options_.on_act && to != connections_.end())
                    options_.on_act(message.message, to->second.link->place(Link::client));
                if (is_holding_output_)
                    held_output_.emplace_back([this, message] { send(message); });
                else
                    send(message);
            },
            [&](const coordinator::Close& order) {
                if (is_holding_output_)
                    held_output_.emplace_back([this, id = order.connection] { close(id); });
                else
                    close(order.connection);
            },
            [&](const coordinator::Changed& changed) {
                world_.note(changed.state + ": " + changed.reason);
            },
            [](const coordinator::Ranked&) {},
            [&](const coordinator::Record& record) { options_.on_record(record); },
            [&](const coordinator::ChangeVoters& change) { options_.on_change_voters(change); },
            [&](const coordinator::SteppedDown& stepped_down) {
                options_.on_stepped_down(stepped_down);
            },
            [](const coordinator::Waiting&) {},
            [](const coordinator::Hung&) {},
            [](const coordinator::Commanded&) {},
        },
        effect);
}

void Server::send(const coordinator::Send& message) {
    const auto found = connections_.find(message.connection);
    if (found == connections_.end()) return;
    found->second.link->send(Link::server, control::encode(message.message));
}

void Server::close(ConnectionId connection) {
    const auto found = connections_.find(connection);
    if (found == connections_.end()) return;
    found->second.link->close(Link::server);
    connections_.erase(found);
    driven_->post(Coordinator::Disconnected{connection});
}

void Server::write_held() {
    is_holding_output_ = false;
    for (const auto& write : std::exchange(held_output_, {}))
        write();
}

void Server::lead(coordinator::Led led) {
    driven_->post(std::move(led));
}

void Server::recorded(std::uint64_t number) {
    driven_->post(Coordinator::Recorded{number});
}

void Server::voters_changed(control::Voters voters) {
    driven_->post(Coordinator::VotersChanged{*options_.hosted_run_id, std::move(voters)});
}

void Server::witness_changed(std::optional<control::VoterPlace> witness) {
    driven_->post(Coordinator::WitnessChanged{std::move(witness)});
}

void Server::depose(const std::string& reason) {
    driven_->post(Coordinator::Deposed{reason});
}

void Server::interrupt(int signal, const std::string& reason, std::optional<Duration> grace) {
    driven_->post(Coordinator::Interrupted{signal, reason, grace});
}

void Server::kill() {
    switch_off();
    for (const auto& [id, connection] : connections_)
        connection.link->close(Link::server);
    for (const auto& waiting : waiting_)
        waiting.link->close(Link::server);
    connections_.clear();
    waiting_.clear();
}

void Server::switch_off() {
    is_up_ = false;
    is_paused_ = false;
    is_holding_output_ = false;
    held_output_.clear();
    driven_->freeze();
}

void Server::restart() {
    begin();
}

void Server::pause() {
    if (!is_up_) return;
    is_paused_ = true;
    driven_->pause();
}

void Server::resume() {
    if (!is_paused_) return;
    is_paused_ = false;
    write_held();
    driven_->resume();
    for (const auto& waiting : std::exchange(waiting_, {}))
        accept(waiting.link, waiting.peer_addr, waiting.peer_port);
}

}  // namespace ddprun::sim
