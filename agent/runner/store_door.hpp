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
/// connection makes another one. Connections that come before it is there wait for it. Lives on
/// the thread of the stores.
class StoreDoor : public std::enable_shared_from_this<StoreDoor> {
public:
    /// Of the first tunnel; called once at most.
    struct Reached {
        /// Empty: it is there.
        std::string failure;
        /// What the store's agent takes this node's streams to come from: "10.0.0.2:40100".
        std::string name;
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
    void take(net::Tcp::socket socket);
    TunnelLink& link();
    static boost::asio::awaitable<void> dial(
        std::shared_ptr<StoreDoor> self, std::shared_ptr<TunnelLink> link);
    boost::asio::awaitable<std::optional<Failure>> attempt(std::shared_ptr<TunnelLink> link);
    std::string in_words(const Failure& failure) const;
    void answer(std::string failure);

    boost::asio::io_context& io_;
    Endpoint store_;
    std::function<tls::Key()> key_;
    OnReached on_reached_;
    std::shared_ptr<server::Listener> listener_;
    std::shared_ptr<TunnelLink> link_;
    std::string name_;
    bool is_closed_ = false;
};

}  // namespace ddprun::agent
