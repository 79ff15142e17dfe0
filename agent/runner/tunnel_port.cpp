// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/tunnel_port.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/net/deadline.hpp"
#include "rendezvous/server/handshakes.hpp"
#include "rendezvous/server/listener.hpp"
#include "rendezvous/server/rejections.hpp"
#include "rendezvous/tls/error.hpp"
#include "rendezvous/tunnel/error.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <exception>
#include <map>
#include <new>
#include <string>
#include <utility>

namespace ddprun::agent {

/// A connection that has not yet proved the secret.
struct TunnelPort::Caller {
    Caller(net::Tcp::socket taken, tls::Session::FindKey find_key)
        : socket(std::move(taken)),
          session(tls::Session::for_server(std::move(find_key))),
          deadline(socket.get_executor(), limits::tls_handshake_timeout, [this] {
              net::close(socket);
          }) {}

    net::Tcp::socket socket;
    tls::Session session;
    net::Deadline deadline;
    /// Bytes that the session has decrypted already.
    std::string plain;
};

struct TunnelPort::State {
    State(boost::asio::io_context& context, Hooks given) : io(context), hooks(std::move(given)) {}

    void forget(std::uint64_t number) {
        handshakes.remove({number});
        callers.erase(number);
    }
    /// Logs the first rejection of each address.
    void reject(const std::string& peer, const Failure& why) {
        if (rejections.add(peer))
            log::warning("tunnel.refused", {{"peer", peer}, {"reason", why.describe()}});
    }

    boost::asio::io_context& io;
    Hooks hooks;
    std::shared_ptr<server::Listener> listener;
    std::uint64_t last = 0;
    server::Handshakes handshakes{limits::max_tunnel_handshakes};
    std::map<std::uint64_t, std::shared_ptr<Caller>> callers;
    std::map<std::uint64_t, std::shared_ptr<TunnelLink>> links;
    /// The bounds of each link, and of the bytes that all links hold together.
    tunnel::TunnelBounds bounds = [] {
        tunnel::TunnelBounds shared;
        shared.held_by_all = std::make_shared<std::size_t>(0);
        return shared;
    }();
    server::Rejections rejections;
    bool is_finishing = false;
};

TunnelPort::TunnelPort(boost::asio::io_context& io, net::Tcp::acceptor acceptor, Hooks hooks)
    : state_(std::make_shared<State>(io, std::move(hooks))) {
    state_->listener = std::make_shared<server::Listener>(
        std::move(acceptor), [state = std::weak_ptr{state_}](net::Tcp::socket socket) {
            if (const auto port = state.lock()) take(port, std::move(socket));
        });
    state_->listener->start();
}

TunnelPort::~TunnelPort() {
    finish();
    for (const auto& [number, caller] : state_->callers)
        net::close(caller->socket);
    state_->callers.clear();
    for (const auto& [number, link] : std::exchange(state_->links, {}))
        link->stop();
}

void TunnelPort::finish() {
    state_->is_finishing = true;
    state_->listener->close();
}

void TunnelPort::take(const std::shared_ptr<State>& state, net::Tcp::socket socket) {
    net::prepare(socket);
    const auto number = ++state->last;
    const auto closed = state->handshakes.add(
        {number}, {net::peer_network(socket), net::peer_address(socket)}, state->hooks.now());
    if (closed == ConnectionId{number}) return;
    if (closed)
        if (const auto found = state->callers.find(closed->value); found != state->callers.end())
            net::close(found->second->socket);
    try {
        state->callers.emplace(
            number, std::make_shared<Caller>(std::move(socket), state->hooks.find_key));
        boost::asio::co_spawn(
            state->io, greet(state, number), [state, number](const std::exception_ptr& failed) {
                if (failed) state->forget(number);
            });
    } catch (const std::bad_alloc&) {
        // Without a greeting coroutine the caller would keep its place for ever.
        state->forget(number);
    }
}

boost::asio::awaitable<void> TunnelPort::greet(std::shared_ptr<State> state, std::uint64_t number) {
    const auto found = state->callers.find(number);
    if (found == state->callers.end()) co_return;
    const auto caller = found->second;
    auto& session = caller->session;
    const auto peer = net::peer_name(caller->socket);
    std::array<char, 4096> chunk{};
    while (!session.is_established()) {
        const auto [ec, size] =
            co_await caller->socket.async_read_some(boost::asio::buffer(chunk), net::as_values);
        if (ec) {
            // The caller timed out, closed, or was closed because there were too many callers.
            if (caller->deadline.has_passed())
                state->reject(peer, {boost::asio::error::timed_out, "no proof of the secret"});
            break;
        }
        const auto goes_on = session.receive({chunk.data(), size}, caller->plain);
        const auto answer = session.take_output();
        if (!answer.empty())
            co_await boost::asio::async_write(
                caller->socket, boost::asio::buffer(answer), net::as_values);
        if (!goes_on) {
            state->reject(peer, goes_on.error());
            break;
        }
    }
    const bool is_admitted =
        session.is_established() && state->callers.contains(number) && !state->is_finishing;
    if (is_admitted && state->links.size() >= limits::max_tunnels)
        state->reject(peer, {boost::asio::error::no_buffer_space, "too many tunnels"});
    else if (is_admitted)
        admit(state, number);
    net::close(caller->socket);
    state->forget(number);
}

void TunnelPort::admit(const std::shared_ptr<State>& state, std::uint64_t number) {
    auto& caller = *state->callers.at(number);
    const auto weak = std::weak_ptr{state};
    auto& io = state->io;
    const auto peer = net::peer_name(caller.socket);
    auto link = std::make_shared<TunnelLink>(
        io,
        tunnel::Tunnel::Side::accepts,
        [weak, &io](const std::string& name) {
            const auto port = weak.lock();
            return port && !port->is_finishing ? port->hooks.join(name) : TunnelLink::Socket(io);
        },
        [weak, number, peer](const Failure& why) {
            const auto port = weak.lock();
            if (!port) return;
            // Done first: logging may fail for lack of memory.
            port->links.erase(number);
            const auto& kind = why.code.category();
            if (kind == tunnel::error_category() || kind == tls::error_category())
                log::warning("tunnel.closed", {{"peer", peer}, {"reason", why.describe()}});
        },
        state->bounds);
    state->links.emplace(number, link);
    link->start(std::move(caller.socket), std::move(caller.session), std::move(caller.plain));
}

}  // namespace ddprun::agent
