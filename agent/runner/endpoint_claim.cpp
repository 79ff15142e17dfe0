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

void EndpointClaim::start() {
    if (!find_()) return client_.reset();
    client::CoordinatorClient::Hooks hooks;
    hooks.on_opened = [this](const client::CoordinatorClient::Opened& opened) {
        if (opened.version < control::voters_since) return;
        if (auto claim = find_()) client_->send(std::move(*claim));
    };
    // Most often no process is there, and what it answers does not matter.
    hooks.on_connected = [](int) {};
    hooks.on_message = [](const control::ServerMessage&) {};
    hooks.on_closed = [](const client::CoordinatorClient::Closed&) {};
    client_ = connect_(std::move(hooks));
    again_.expires_after(limits::claim_interval);
    again_.async_wait([this](const error_code& ec) {
        if (!ec) start();
    });
}

}  // namespace ddprun::agent
