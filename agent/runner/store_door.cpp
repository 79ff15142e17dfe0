// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/store_door.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/net/deadline.hpp"
#include "rendezvous/tls/error.hpp"
#include "rendezvous/tls/session.hpp"
#include "rendezvous/tunnel/error.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <utility>

namespace ddprun::agent {
namespace store_door {

/// Why an attempt to make the tunnel failed.
enum class Kind : std::uint8_t {
    out_of_reach,  ///< no connection could be made
    refused,       ///< the other end does not have the secret, or does not encrypt
    closed,        ///< closed without any bytes, as by a program without encryption
    silent,        ///< no answer: probably the store's agent has not begun the round yet
    cut,           ///< failed or timed out during the handshake
};

namespace {

constexpr std::chrono::milliseconds pause_between_attempts{100};

/// How long one kind of failure may persist before it is final. None: only `tunnel_dial_timeout`
/// limits it.
std::optional<Duration> timeout_of(Kind kind) {
    switch (kind) {
        case Kind::out_of_reach: return limits::store_reachability_timeout;
        case Kind::refused:
        // An agent that begins or ends its round closes connections too.
        case Kind::closed: return limits::secret_refused_timeout;
        case Kind::silent:
        case Kind::cut: break;
    }
    return std::nullopt;
}

Kind kind_of(const Failure& failure) {
    const bool is_refusal =
        failure.code == tls::Error::not_encrypted || failure.code == tls::Error::wrong_secret;
    return is_refusal ? Kind::refused : Kind::cut;
}

/// Decides how long attempts may go on, by the kind of the last failures.
class DialTimeout {
public:
    explicit DialTimeout(boost::asio::any_io_executor executor)
        : executor_(std::move(executor)),
          in_all_(executor_, limits::tunnel_dial_timeout, [] {}) {}

    /// True: no further attempt is made.
    bool is_over_after(Kind kind) {
        if (kind_ != kind) {
            kind_ = kind;
            in_a_row_.reset();
            if (const auto limit = timeout_of(kind)) in_a_row_.emplace(executor_, *limit, [] {});
        }
        return in_all_.has_passed() || (in_a_row_ && in_a_row_->has_passed());
    }

private:
    boost::asio::any_io_executor executor_;
    net::Deadline in_all_;
    std::optional<Kind> kind_;
    std::optional<net::Deadline> in_a_row_;
};

std::string own_end(const net::Tcp::socket& socket) {
    error_code ec;
    const auto port = socket.local_endpoint(ec).port();
    return ec ? "?" : Endpoint{net::local_address(socket), port}.to_string();
}

}  // namespace
}  // namespace store_door

struct StoreDoor::Miss {
    store_door::Kind kind;
    Failure failure;
};

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

/// Returns the current tunnel, which may still be in the making. Makes a new tunnel if the current
/// one has ended.
TunnelLink& StoreDoor::link() {
    if (link_ && !link_->is_over()) return *link_;
    const auto log_end = [peer = store_.to_string()](const Failure& why) {
        // For any other reason a connection to a store ends in normal operation.
        const auto& kind = why.code.category();
        const bool is_wrong = kind == tunnel::error_category() || kind == tls::error_category();
        log::write(
            is_wrong ? log::Level::warning : log::Level::debug,
            "tunnel.closed",
            {{"peer", peer}, {"reason", why.describe()}});
    };
    auto link = std::make_shared<TunnelLink>(
        io_,
        tunnel::Tunnel::Side::opens,
        [&io = io_](const std::string&) { return TunnelLink::Socket(io); },
        log_end);
    boost::asio::co_spawn(
        io_, dial(shared_from_this(), link), [link](const std::exception_ptr& failed) {
            // The coroutine failed for lack of memory: connections that wait for the tunnel are
            // closed.
            if (failed) link->end({system_code(ENOMEM), {}});
        });
    // Set last: a link that is never dialled would never end.
    link_ = std::move(link);
    return *link_;
}

boost::asio::awaitable<void> StoreDoor::dial(
    std::shared_ptr<StoreDoor> self, std::shared_ptr<TunnelLink> link) {
    using namespace store_door;
    const auto executor = co_await boost::asio::this_coro::executor;
    DialTimeout timeout(executor);
    boost::asio::steady_timer pause(executor);
    bool has_complained = false;
    for (;;) {
        const auto miss = co_await self->attempt(link);
        if (self->is_closed_ || link->is_over()) co_return;
        if (!miss) co_return self->answer({});
        if (timeout.is_over_after(miss->kind)) {
            link->end(miss->failure);
            co_return self->answer(self->in_words(*miss));
        }
        if (miss->kind == Kind::silent && !std::exchange(has_complained, true))
            log::warning(
                "tunnel.unanswered",
                {{"peer", self->store_.to_string()},
                 {"effect",
                  "the workers of this node wait for the store; the agent there has not begun the "
                  "round, or something between the nodes is silent"}});
        pause.expires_after(pause_between_attempts);
        co_await pause.async_wait(net::as_values);
        if (self->is_closed_ || link->is_over()) co_return;
    }
}

boost::asio::awaitable<std::optional<StoreDoor::Miss>> StoreDoor::attempt(
    std::shared_ptr<TunnelLink> link) {
    using store_door::Kind;
    auto addresses = co_await net::resolve(store_);
    if (!addresses) co_return Miss{Kind::out_of_reach, addresses.error()};
    auto connected = co_await net::connect(std::move(*addresses));
    if (!connected) co_return Miss{Kind::out_of_reach, connected.error()};
    auto& socket = *connected;
    auto session = tls::Session::for_client(key_());
    std::string plain;
    std::array<char, 4096> chunk{};
    const auto begin = session.take_output();
    const auto [unsent, all] =
        co_await boost::asio::async_write(socket, boost::asio::buffer(begin), net::as_values);
    if (unsent) co_return Miss{Kind::closed, {unsent, {}}};
    std::size_t heard = 0;
    {
        const net::Deadline first(
            socket.get_executor(), limits::tunnel_answer_timeout, [&] { net::close(socket); });
        const auto [ec, size] =
            co_await socket.async_read_some(boost::asio::buffer(chunk), net::as_values);
        if (first.has_passed()) co_return Miss{Kind::silent, {boost::asio::error::timed_out, {}}};
        if (ec) co_return Miss{Kind::closed, {ec, {}}};
        heard = size;
    }
    const net::Deadline deadline(
        socket.get_executor(), limits::tls_handshake_timeout, [&] { net::close(socket); });
    for (;;) {
        if (const auto goes_on = session.receive({chunk.data(), heard}, plain); !goes_on)
            co_return Miss{store_door::kind_of(goes_on.error()), {goes_on.error().code, {}}};
        const auto bytes = session.take_output();
        const auto [failed, written] =
            co_await boost::asio::async_write(socket, boost::asio::buffer(bytes), net::as_values);
        if (failed) co_return Miss{Kind::cut, {failed, {}}};
        if (session.is_established()) break;
        const auto [ec, size] =
            co_await socket.async_read_some(boost::asio::buffer(chunk), net::as_values);
        if (ec) co_return Miss{Kind::cut, {ec, {}}};
        heard = size;
    }
    if (deadline.has_passed()) co_return Miss{Kind::cut, {boost::asio::error::timed_out, {}}};
    if (is_closed_) co_return std::nullopt;
    name_ = store_door::own_end(socket);
    link->start(std::move(socket), std::move(session), std::move(plain));
    co_return std::nullopt;
}

std::string StoreDoor::in_words(const Miss& miss) const {
    using store_door::Kind;
    const auto store = "the worker store of this round at " + store_.to_string();
    const auto reason = miss.failure.describe();
    const auto other_protocol =
        store +
        " takes no encrypted connections: the ddprun there is older than members-only stores; use "
        "one version on all nodes, or --store-access=direct";
    if (miss.failure.code == tls::Error::not_encrypted) return other_protocol;
    switch (miss.kind) {
        case Kind::closed: return other_protocol;
        case Kind::refused: return store + " does not accept this node: " + reason;
        case Kind::silent:
        case Kind::cut:
            return store + " answers nothing of use: " + reason +
                   "; look at the log of the node there, and at what is between the nodes";
        case Kind::out_of_reach: break;
    }
    return "the worker store of this round is out of reach: " + reason +
           "; say with --local-addr on the first node which address others can reach";
}

void StoreDoor::answer(std::string failure) {
    const bool is_first = !std::exchange(has_answered_, true);
    if (on_reached_ && (is_first || failure.empty()))
        on_reached_({std::move(failure), name_, is_first});
}

}  // namespace ddprun::agent
