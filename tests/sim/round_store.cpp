// SPDX-License-Identifier: Apache-2.0
// The worker store of a round.
#include "rendezvous/base/machine.hpp"
#include "rendezvous/wire/encoder.hpp"
#include "tests/sim/host.hpp"

#include <utility>

namespace ddprun::sim {

RoundStore::RoundStore(World& world)
    : driven_(world, store::Store{}, [this](store::Store::Effect& effect) { perform(effect); }) {}

void RoundStore::accept(const std::shared_ptr<Link>& link) {
    const ConnectionId id{next_client_++};
    clients_[id].link = link;
    link->attach(
        Link::server,
        {[this, id](const std::string& bytes) { received(id, bytes); },
         [this, id] {
             clients_.erase(id);
             driven_.post(store::Store::Disconnected{id});
         }});
}

void RoundStore::received(ConnectionId id, const std::string& bytes) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) return;
    found->second.decoder.append(bytes);
    for (;;) {
        store::Store::Received received{id, {}};
        const auto has_request = found->second.decoder.next(received.request);
        require(has_request.has_value(), "workers speak the protocol");
        if (!*has_request) return;
        driven_.post(std::move(received));
    }
}

void RoundStore::perform(store::Store::Effect& effect) {
    std::visit(
        Overloaded{
            [&](const store::Store::Reply& reply) {
                const auto found = clients_.find(reply.to);
                if (found == clients_.end()) return;
                std::string bytes;
                wire::encode(reply.reply, bytes);
                found->second.link->send(Link::server, std::move(bytes));
            },
            [&](const store::Store::CloseConnection&) {
                contradiction("workers ask for nothing odd", __FILE__, __LINE__);
            },
        },
        effect);
}

void RoundStore::close() {
    for (const auto& [id, client] : clients_)
        client.link->close(Link::server);
    clients_.clear();
}

}  // namespace ddprun::sim
