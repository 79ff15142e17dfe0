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

/// Where the workers of this node reach a round's store that another agent serves: a loopback
/// address, for processes of this user and root, whose connections go through one tunnel.
///
/// The tunnel is made at once. When it has ended the connections through it have, and the next
/// connection makes another one. Connections that come before it is there wait for it, until it
/// times out: after `limits::store_reachability_timeout` in a row of a store out of reach,
/// `limits::secret_refused_timeout` of one that says no, and `limits::tunnel_dial_timeout` in all.
/// Lives on the thread of the stores.
class StoreDoor : public std::enable_shared_from_this<StoreDoor> {
public:
    /// Of each tunnel that is there, and of a first one that cannot be.
    struct Reached {
        /// Empty: it is there.
        std::string failure;
        /// What the store's agent takes this node's streams to come from: "10.0.0.2:40100".
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

    /// Requires: the acceptor is that of a loopback address.
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
