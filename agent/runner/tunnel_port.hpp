// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/runner/tunnel_link.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/tls/session.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>

namespace ddprun::agent {

/// Accepts the tunnels of other nodes to a round's store. A caller that does not prove the secret
/// within `limits::tls_handshake_timeout` is closed and gets only a TLS alert. If too many callers
/// have not proved it yet, `server::Handshakes` chooses which to close. Lives on the stores'
/// thread.
class TunnelPort {
public:
    struct Hooks {
        /// Finds the round's key by its identity.
        tls::Session::FindKey find_key;
        /// Makes the store's end of a new stream.
        TunnelLink::Join join;
        std::function<Instant()> now;
    };

    /// Also serves callers that connected before this call, after the acceptor began to listen.
    TunnelPort(boost::asio::io_context& io, net::Tcp::acceptor acceptor, Hooks hooks);
    /// Closes everything.
    ~TunnelPort();
    TunnelPort(const TunnelPort&) = delete;
    TunnelPort& operator=(const TunnelPort&) = delete;

    /// Accepts no further tunnels and streams.
    void finish();

private:
    struct Caller;
    struct State;

    static void take(const std::shared_ptr<State>& state, net::Tcp::socket socket);
    static boost::asio::awaitable<void> greet(std::shared_ptr<State> state, std::uint64_t number);
    static void admit(const std::shared_ptr<State>& state, std::uint64_t number);

    std::shared_ptr<State> state_;
};

}  // namespace ddprun::agent
