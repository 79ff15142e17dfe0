// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/runner/tunnel_link.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/listener.hpp"
#include "rendezvous/tls/keys.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::agent {

/// A loopback address at which this node's workers reach a round's store on another node. It
/// accepts processes of this user and of root; their connections go through one tunnel.
///
/// The tunnel is made at once. When it ends, the connections through it end too, and the next
/// connection makes a new tunnel. Connections wait while a tunnel is being made. Making a tunnel
/// times out when the store has been out of reach for `limits::store_reachability_timeout`, when it
/// has refused for `limits::secret_refused_timeout`, and in any case after
/// `limits::tunnel_dial_timeout`. Lives on the stores' thread.
class StoreDoor : public std::enable_shared_from_this<StoreDoor> {
public:
    /// Reported for each tunnel that is made, and if the first tunnel cannot be made.
    struct Reached {
        /// Empty: the tunnel is established.
        std::string failure;
        /// The name that the store's agent uses for this node's streams: "10.0.0.2:40100".
        std::string name;
        bool is_first = true;
    };
    using OnReached = std::function<void(Reached reached)>;

    StoreDoor(
        boost::asio::io_context& io,
        Endpoint store,
        std::function<tls::Key()> key,
        OnReached on_reached);
    StoreDoor(const StoreDoor&) = delete;
    StoreDoor& operator=(const StoreDoor&) = delete;

    /// Requires: the acceptor listens on a loopback address.
    void open(net::Tcp::acceptor acceptor);
    /// Closes everything.
    void close();

private:
    struct Miss;

    void take(net::Tcp::socket socket);
    TunnelLink& link();
    static boost::asio::awaitable<void> dial(
        std::shared_ptr<StoreDoor> self, std::shared_ptr<TunnelLink> link);
    boost::asio::awaitable<std::optional<Miss>> attempt(std::shared_ptr<TunnelLink> link);
    std::string in_words(const Miss& miss) const;
    void answer(std::string failure);

    boost::asio::io_context& io_;
    Endpoint store_;
    std::function<tls::Key()> key_;
    OnReached on_reached_;
    std::shared_ptr<server::Listener> listener_;
    std::shared_ptr<TunnelLink> link_;
    std::string name_;
    bool has_answered_ = false;
    bool is_closed_ = false;
};

}  // namespace ddprun::agent
