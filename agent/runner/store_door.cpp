// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/store_door.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/net/deadline.hpp"
#include "rendezvous/tls/error.hpp"
#include "rendezvous/tls/session.hpp"
#include "rendezvous/tunnel/error.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <utility>

namespace ddprun::agent {
namespace store_door {
namespace {

constexpr std::chrono::milliseconds pause_between_attempts{100};

/// A store for every caller, as of an older ddprun, closes on what is no request.
bool is_other_protocol(const Failure& failure) {
    return failure.code == tls::Error::not_encrypted || failure.code == boost::asio::error::eof ||
           failure.code == boost::asio::error::connection_reset ||
           failure.code == boost::asio::error::broken_pipe;
}

bool is_refusal(const Failure& failure) {
    return is_other_protocol(failure) || failure.code == tls::Error::wrong_secret;
}

/// The connection was not made: the store's port is out of reach.
bool is_about_reach(const Failure& failure) {
    return !failure.context.empty();
}

std::string own_end(const net::Tcp::socket& socket) {
    error_code ec;
    const auto port = socket.local_endpoint(ec).port();
    return ec ? "?" : Endpoint{net::local_address(socket), port}.to_string();
}

}  // namespace
}  // namespace store_door

StoreDoor::StoreDoor(
    boost::asio::io_context& io,
    Endpoint store,
    std::function<tls::Key()> key,
    OnReached on_reached)
    : io_(io),
      store_(std::move(store)),
      key_(std::move(key)),
      on_reached_(std::move(on_reached)) {}

void StoreDoor::open(net::Tcp::acceptor acceptor) {
    listener_ = std::make_shared<server::Listener>(
        std::move(acceptor),
        [self = std::weak_ptr{shared_from_this()}](net::Tcp::socket socket) {
            if (const auto door = self.lock()) door->take(std::move(socket));
        },
        server::Listener::Callers::own_user);
    listener_->start();
    link();
}

void StoreDoor::close() {
    is_closed_ = true;
    on_reached_ = nullptr;
    if (listener_) listener_->close();
    if (link_) link_->stop();
}

void StoreDoor::take(net::Tcp::socket socket) {
    net::prepare(socket);
    error_code ec;
    const auto port = socket.remote_endpoint(ec).port();
    if (!ec) link().carry(generic_socket(std::move(socket), io_), port);
}

/// The tunnel that is there or is being made.
TunnelLink& StoreDoor::link() {
    if (link_ && !link_->is_over()) return *link_;
    const auto log_end = [peer = store_.to_string()](const Failure& why) {
        // Otherwise as a store's connections end.
        const auto& kind = why.code.category();
        const bool is_wrong = kind == tunnel::error_category() || kind == tls::error_category();
        log::write(
            is_wrong ? log::Level::warning : log::Level::debug,
            "tunnel.closed",
            {{"peer", peer}, {"reason", why.describe()}});
    };
    link_ = std::make_shared<TunnelLink>(
        io_,
        tunnel::Tunnel::Side::opens,
        [&io = io_](const std::string&) { return TunnelLink::Socket(io); },
        log_end);
    boost::asio::co_spawn(
        io_, dial(shared_from_this(), link_), [link = link_](const std::exception_ptr& failed) {
            // Without memory: what waits for the tunnel does not wait for ever.
            if (failed) link->end({system_code(ENOMEM), {}});
        });
    return *link_;
}

boost::asio::awaitable<void> StoreDoor::dial(
    std::shared_ptr<StoreDoor> self, std::shared_ptr<TunnelLink> link) {
    using namespace store_door;
    const auto executor = co_await boost::asio::this_coro::executor;
    const net::Deadline reach(executor, limits::store_reachability_timeout, [] {});
    // One answer may be forged, or that of an agent with too many callers.
    const net::Deadline refusal(executor, limits::secret_refused_timeout, [] {});
    boost::asio::steady_timer pause(executor);
    for (;;) {
        const auto failure = co_await self->attempt(link);
        if (self->is_closed_) co_return;
        if (!failure) co_return self->answer({});
        // An agent that has not begun the round yet answers later.
        const bool is_final = (is_about_reach(*failure) && reach.has_passed()) ||
                              (is_refusal(*failure) && refusal.has_passed());
        if (is_final) {
            link->end(*failure);
            co_return self->answer(self->in_words(*failure));
        }
        pause.expires_after(pause_between_attempts);
        co_await pause.async_wait(net::as_values);
        if (self->is_closed_) co_return;
    }
}

boost::asio::awaitable<std::optional<Failure>> StoreDoor::attempt(
    std::shared_ptr<TunnelLink> link) {
    auto addresses = co_await net::resolve(store_);
    if (!addresses) co_return addresses.error();
    auto connected = co_await net::connect(std::move(*addresses));
    if (!connected) co_return connected.error();
    auto& socket = *connected;
    auto session = tls::Session::for_client(key_());
    std::string plain;
    {
        const net::Deadline deadline(
            socket.get_executor(), limits::tls_handshake_timeout, [&] { net::close(socket); });
        std::array<char, 4096> chunk{};
        for (;;) {
            const auto bytes = session.take_output();
            const auto [failed, written] = co_await boost::asio::async_write(
                socket, boost::asio::buffer(bytes), net::as_values);
            if (failed) co_return Failure{failed, {}};
            if (session.is_established()) break;
            const auto [ec, size] =
                co_await socket.async_read_some(boost::asio::buffer(chunk), net::as_values);
            if (ec) co_return Failure{ec, {}};
            if (const auto goes_on = session.receive({chunk.data(), size}, plain); !goes_on)
                co_return Failure{goes_on.error().code, {}};
        }
        if (deadline.has_passed()) co_return Failure{boost::asio::error::timed_out, {}};
    }
    if (is_closed_) co_return std::nullopt;
    name_ = store_door::own_end(socket);
    link->start(std::move(socket), std::move(session), std::move(plain));
    co_return std::nullopt;
}

std::string StoreDoor::in_words(const Failure& failure) const {
    const auto store = "the worker store of this round at " + store_.to_string();
    if (store_door::is_other_protocol(failure))
        return store +
               " takes no encrypted connections: the ddprun there is older than members-only "
               "stores; use one version on all nodes, or --store-access=direct";
    if (failure.code == tls::Error::wrong_secret)
        return store + " does not accept this node: " + failure.describe();
    return "the worker store of this round is out of reach: " + failure.describe() +
           "; say with --local-addr on the first node which address others can reach";
}

void StoreDoor::answer(std::string failure) {
    if (const auto on_reached = std::exchange(on_reached_, nullptr))
        on_reached({std::move(failure), name_});
}

}  // namespace ddprun::agent
