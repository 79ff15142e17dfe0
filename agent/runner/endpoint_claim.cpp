// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/endpoint_claim.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/versions.hpp"

#include <utility>

namespace ddprun::agent {

EndpointClaim::EndpointClaim(boost::asio::io_context& io, Connect connect, Find find)
    : again_(io),
      connect_(std::move(connect)),
      find_(std::move(find)) {}

void EndpointClaim::start(std::vector<Endpoint> places) {
    places_ = std::move(places);
    send();
}

void EndpointClaim::send() {
    clients_.clear();
    const auto leader = find_();
    if (places_.empty() || !leader) return;
    if (leader->claim)
        for (const auto& place : places_)
            clients_.push_back(connect_(place, hooks_for(clients_.size())));
    again_.expires_after(limits::claim_interval);
    again_.async_wait([this](const error_code& ec) {
        if (!ec) send();
    });
}

/// Most often no process is there, and what it answers does not matter.
client::CoordinatorClient::Hooks EndpointClaim::hooks_for(std::size_t index) {
    client::CoordinatorClient::Hooks hooks;
    hooks.on_opened = [this, index](const client::CoordinatorClient::Opened& opened) {
        if (opened.version < control::voters_since) return;
        auto leader = find_();
        if (leader && leader->claim) clients_[index]->send(std::move(*leader->claim));
    };
    hooks.on_connected = [](int) {};
    hooks.on_message = [](const control::ServerMessage&) {};
    hooks.on_closed = [](const client::CoordinatorClient::Closed&) {};
    return hooks;
}

}  // namespace ddprun::agent
