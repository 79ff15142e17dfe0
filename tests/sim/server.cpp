// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/server.hpp"

#include "rendezvous/base/machine.hpp"

namespace ddprun::sim {

using coordinator::Coordinator;

Server::Server(World& world, std::string addr, std::optional<std::string> hosted_run_id)
    : world_(world),
      addr_(std::move(addr)),
      driven_(
          world,
          Coordinator{{std::move(hosted_run_id), "sim"}},
          [this](coordinator::Effect& effect) { perform(effect); }) {}

void Server::accept(
    const std::shared_ptr<Link>& link, const std::string& peer_addr, int peer_port) {
    const ConnectionId id{next_connection_++};
    connections_[id].link = link;
    link->attach(
        Link::server,
        {[this, id](const std::string& bytes) { received(id, bytes); },
         [this, id] {
             connections_.erase(id);
             driven_.post(Coordinator::Disconnected{id});
         }});
    link->send(
        Link::server, control::encode(control::ServerMessage{control::Hello{{1}, "sim", {}}}));
    driven_.post(
        Coordinator::Connected{id, peer_addr, peer_addr + ":" + std::to_string(peer_port), addr_});
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
        driven_.post(Coordinator::Received{id, std::move(**message)});
    }
}

void Server::perform(coordinator::Effect& effect) {
    std::visit(
        Overloaded{
            [&](const coordinator::Send& send) {
                const auto found = connections_.find(send.connection);
                if (found == connections_.end()) return;
                found->second.link->send(Link::server, control::encode(send.message));
            },
            [&](const coordinator::Close& close) {
                const auto found = connections_.find(close.connection);
                if (found == connections_.end()) return;
                found->second.link->close(Link::server);
                connections_.erase(found);
                driven_.post(Coordinator::Disconnected{close.connection});
            },
            [&](const coordinator::Changed& changed) {
                world_.note(changed.state + ": " + changed.reason);
            },
        },
        effect);
}

void Server::interrupt(int signal, const std::string& reason) {
    driven_.post(Coordinator::Interrupted{signal, reason});
}

void Server::kill() {
    is_up_ = false;
    driven_.freeze();
    for (const auto& [id, connection] : connections_)
        connection.link->close(Link::server);
    connections_.clear();
}

}  // namespace ddprun::sim
