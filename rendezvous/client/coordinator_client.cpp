// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/coordinator_client.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/codec.hpp"
#include "rendezvous/control/other_server.hpp"
#include "rendezvous/control/versions.hpp"
#include "rendezvous/net/deadline.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/tls/error.hpp"
#include "rendezvous/tls/session.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun::client {
namespace coordinator_client {
namespace {

using ConnectError = CoordinatorClient::ConnectError;
using Closed = CoordinatorClient::Closed;

constexpr std::size_t most_frames_at_once = 16;

ConnectError connect_error_of(const error_code& ec) {
    return ec == boost::asio::error::connection_refused ? ConnectError::refused
                                                        : ConnectError::no_answer;
}

/// Chooses from the failures at several addresses: a refusal is the most specific one, since it
/// shows that the machine exists.
Closed more_specific(const std::optional<Closed>& earlier, Closed later) {
    return earlier && earlier->error == ConnectError::refused ? *earlier : later;
}

std::string local_socket_name(const net::Tcp::socket& socket) {
    error_code ec;
    const auto endpoint = socket.local_endpoint(ec);
    return Endpoint{net::local_address(socket), ec ? std::uint16_t{0} : endpoint.port()}
        .to_string();
}

}  // namespace
}  // namespace coordinator_client

/// The connection itself; alive as long as one of its asynchronous steps is.
class CoordinatorClient::Session : public std::enable_shared_from_this<Session> {
public:
    Session(
        boost::asio::io_context& io,
        Endpoint endpoint,
        Hooks hooks,
        Duration greeting_timeout,
        std::optional<Security> security)
        : endpoint_(std::move(endpoint)),
          hooks_(std::move(hooks)),
          greeting_timeout_(greeting_timeout),
          security_(std::move(security)),
          socket_(io) {}

    void start();
    void send(const control::AgentMessage& message);
    /// No hook is called any more; queued messages are still written.
    void end();
    bool is_open() const { return is_open_ && !is_over_ && !is_ending_; }

private:
    boost::asio::awaitable<void> run();
    boost::asio::awaitable<std::optional<Closed>> connect(
        std::vector<net::Tcp::endpoint> addresses);
    boost::asio::awaitable<void> talk();
    void receive(std::string_view bytes);
    void not_secure(const Failure& failure);
    void understand(std::string_view bytes);
    /// Handles the first frame: hello, or the reason for a refusal.
    void greeted(control::ServerMessage message);
    void no_hello(ConnectError error, const std::string& why);
    void write();
    void wrote(const error_code& ec, std::size_t frame_count);
    /// Closes the connection and reports why to the owner.
    void close(ConnectError error, std::string reason);
    /// Ends the connection by `shutdown` first, since the keeper's duplicate keeps a closed socket
    /// open.
    void shut();

    Endpoint endpoint_;
    Hooks hooks_;
    Duration greeting_timeout_;
    std::optional<Security> security_;
    /// Set once connected, when there is `security_`.
    std::optional<tls::Session> tls_;
    net::Tcp::socket socket_;
    std::string peer_;
    control::ServerMessageDecoder decoder_;
    /// The first bytes received, up to `control::enough_to_name_server`.
    std::string first_bytes_;
    /// Limits resolving, then waiting for hello, and finally writing the queue at the end.
    std::optional<net::Deadline> deadline_;

    std::deque<std::string> queue_;
    std::size_t queued_bytes_ = 0;
    /// The bytes that are being written, when the connection is encrypted.
    std::string encrypted_;
    bool is_writing_ = false;
    /// Hello was read.
    bool is_open_ = false;
    /// The owner has ended the connection or is destroyed: no hook is called any more.
    bool is_ending_ = false;
    /// The socket is closed.
    bool is_over_ = false;
};

void CoordinatorClient::Session::start() {
    boost::asio::co_spawn(
        socket_.get_executor(),
        [self = shared_from_this()] { return self->run(); },
        boost::asio::detached);
}

boost::asio::awaitable<void> CoordinatorClient::Session::run() {
    const auto self = shared_from_this();
    const auto where = endpoint_.to_string();
    // The resolver cannot be interrupted: its answer may come after the attempt is over.
    deadline_.emplace(socket_.get_executor(), limits::resolve_timeout, [this, where] {
        close(ConnectError::unresolved, "resolve " + where + ": the resolver does not answer");
    });
    auto addresses = co_await net::resolve(endpoint_);
    deadline_.reset();
    if (is_over_) co_return;
    if (!addresses) co_return close(ConnectError::unresolved, addresses.error().describe());

    if (const auto failed = co_await connect(std::move(*addresses)))
        co_return close(failed->error, failed->reason);
    if (is_over_) co_return;
    co_await talk();
}

boost::asio::awaitable<std::optional<CoordinatorClient::Closed>>
CoordinatorClient::Session::connect(std::vector<net::Tcp::endpoint> addresses) {
    using namespace coordinator_client;
    std::optional<Closed> failed;
    for (const auto& address : addresses) {
        std::vector<net::Tcp::endpoint> one{address};
        auto connected = co_await net::connect(std::move(one));
        if (is_over_) co_return failed;
        if (connected) {
            socket_ = std::move(*connected);
            co_return std::nullopt;
        }
        const auto& failure = connected.error();
        failed = more_specific(failed, {connect_error_of(failure.code), failure.describe()});
    }
    co_return failed;
}

boost::asio::awaitable<void> CoordinatorClient::Session::talk() {
    peer_ = net::peer_name(socket_);
    deadline_.emplace(socket_.get_executor(), greeting_timeout_, [this] {
        no_hello(ConnectError::no_answer, "it accepts connections but says nothing");
    });
    hooks_.on_connected(socket_.native_handle());
    if (is_ending_) co_return;
    if (security_)
        tls_.emplace(tls::Session::for_client(security_->key));
    else
        queue_.emplace_back(control::preamble);
    write();

    std::array<char, 4096> chunk{};
    while (!is_over_) {
        const auto [ec, size] =
            co_await socket_.async_read_some(boost::asio::buffer(chunk), net::as_values);
        if (is_over_) co_return;
        if (!ec) {
            if (!is_ending_) receive({chunk.data(), size});
        } else if (is_ending_) {
            shut();
        } else if (is_open_) {
            close(
                ConnectError::lost,
                ec == boost::asio::error::eof
                    ? "the rendezvous server at " + peer_ + " closed the connection"
                    : "connection to the rendezvous server at " + peer_ + ": " + ec.message());
        } else {
            no_hello(ConnectError::wrong_protocol, "it closed the connection without a greeting");
        }
    }
}

void CoordinatorClient::Session::receive(std::string_view bytes) {
    if (!tls_) return understand(bytes);
    const bool was_established = tls_->is_established();
    std::string plain;
    const auto received = tls_->receive(bytes, plain);
    if (!received) return not_secure(received.error());
    if (!was_established && tls_->is_established()) queue_.emplace_back(control::preamble);
    write();
    if (!plain.empty()) understand(plain);
}

void CoordinatorClient::Session::not_secure(const Failure& failure) {
    const auto where = endpoint_.to_string();
    if (failure.code == tls::Error::not_encrypted)
        return close(
            ConnectError::not_encrypted, where + " answers without encryption; nothing was sent");
    if (failure.code == tls::Error::wrong_secret)
        return close(
            ConnectError::wrong_secret,
            where + " does not accept the secret of " + security_->secret_name);
    close(
        ConnectError::lost,
        "connection to the rendezvous server at " + peer_ + ": " + failure.describe());
}

void CoordinatorClient::Session::understand(std::string_view bytes) {
    if (first_bytes_.size() < control::enough_to_name_server) {
        first_bytes_ += bytes.substr(0, control::enough_to_name_server - first_bytes_.size());
        const auto other = control::other_server(first_bytes_);
        if (!other.empty())
            return close(
                ConnectError::wrong_protocol,
                std::string{other} + " answers at " + peer_ + ", not ddprun");
    }
    decoder_.append(bytes);
    // Checked each time: a hook may end the connection, or destroy its owner.
    while (!is_over_ && !is_ending_) {
        auto message = decoder_.next();
        if (!message) {
            const auto why = message.error().describe();
            if (!is_open_) return no_hello(ConnectError::wrong_protocol, "it answers " + why);
            return close(ConnectError::lost, "the rendezvous server at " + peer_ + " sent " + why);
        }
        if (!*message) return;
        if (!is_open_) {
            greeted(std::move(**message));
        } else {
            hooks_.on_message(std::move(**message));
        }
    }
}

void CoordinatorClient::Session::greeted(control::ServerMessage message) {
    if (const auto* refused = std::get_if<control::Refused>(&message))
        return close(
            refused->needs_secret ? ConnectError::needs_secret : ConnectError::wrong_version,
            refused->reason);
    const auto* hello = std::get_if<control::Hello>(&message);
    if (hello == nullptr) return no_hello(ConnectError::wrong_protocol, "it does not greet");
    const int version = control::common_version(hello->versions);
    if (version == 0)
        return no_hello(
            ConnectError::wrong_version, "it speaks no version of the protocol that is known here");
    deadline_.reset();
    is_open_ = true;
    hooks_.on_opened(
        {net::local_address(socket_),
         coordinator_client::local_socket_name(socket_),
         net::peer_address(socket_),
         version});
}

void CoordinatorClient::Session::no_hello(ConnectError error, const std::string& why) {
    close(error, "no ddprun rendezvous server at " + peer_ + ": " + why);
}

void CoordinatorClient::Session::send(const control::AgentMessage& message) {
    if (is_over_ || is_ending_) return;
    queue_.push_back(control::encode(message));
    queued_bytes_ += queue_.back().size();
    if (queued_bytes_ > limits::max_control_backlog_bytes)
        return close(
            ConnectError::lost,
            "the rendezvous server at " + peer_ + " does not read what it is sent");
    write();
}

void CoordinatorClient::Session::write() {
    if (is_writing_ || is_over_) return;
    std::vector<boost::asio::const_buffer> buffers;
    // Before the server has proved the secret, no frame is sent at all.
    const bool may_speak = !security_ || (tls_ && tls_->is_established());
    const auto count =
        may_speak ? std::min(queue_.size(), coordinator_client::most_frames_at_once) : 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (tls_)
            tls_->send(queue_[i]);
        else
            buffers.push_back(boost::asio::buffer(queue_[i]));
    }
    if (tls_) {
        encrypted_ = tls_->take_output();
        if (!encrypted_.empty()) buffers.push_back(boost::asio::buffer(encrypted_));
    }
    if (security_ && buffers.empty()) return;
    is_writing_ = true;
    boost::asio::async_write(
        socket_,
        std::move(buffers),
        [self = shared_from_this(), count](const error_code& ec, std::size_t) {
            self->is_writing_ = false;
            self->wrote(ec, count);
        });
}

void CoordinatorClient::Session::wrote(const error_code& ec, std::size_t frame_count) {
    if (is_over_) return;
    // After a failed write a read fails too, but it first returns what had arrived before.
    if (ec) return is_ending_ ? shut() : void();
    for (; frame_count > 0; --frame_count)
        queue_.pop_front();
    queued_bytes_ = 0;
    for (const auto& frame : queue_)
        queued_bytes_ += frame.size();
    if (!queue_.empty() || (tls_ && tls_->has_output())) write();
    if (is_ending_ && !is_writing_) shut();
}

void CoordinatorClient::Session::end() {
    if (is_ending_) return;
    is_ending_ = true;
    if (is_over_) return;
    if (queue_.empty()) return shut();
    deadline_.emplace(socket_.get_executor(), limits::flush_timeout, [this] { shut(); });
}

void CoordinatorClient::Session::close(ConnectError error, std::string reason) {
    if (is_over_) return;
    shut();
    // Posted, because this may run inside one of the owner's calls.
    boost::asio::post(
        socket_.get_executor(),
        [self = shared_from_this(), closed = Closed{error, std::move(reason)}]() mutable {
            if (!self->is_ending_) self->hooks_.on_closed(std::move(closed));
        });
}

void CoordinatorClient::Session::shut() {
    is_over_ = true;
    deadline_.reset();
    error_code ignored;
    socket_.shutdown(net::Tcp::socket::shutdown_both, ignored);
    net::close(socket_);
}

CoordinatorClient::CoordinatorClient(
    boost::asio::io_context& io,
    Endpoint endpoint,
    Hooks hooks,
    Duration greeting_timeout,
    std::optional<Security> security)
    : session_(std::make_shared<Session>(
          io, std::move(endpoint), std::move(hooks), greeting_timeout, std::move(security))) {
    session_->start();
}

CoordinatorClient::~CoordinatorClient() {
    session_->end();
}

bool CoordinatorClient::is_open() const {
    return session_->is_open();
}

void CoordinatorClient::send(const control::AgentMessage& message) {
    session_->send(message);
}

void CoordinatorClient::end() {
    session_->end();
}

std::string_view name_of(CoordinatorClient::ConnectError error) {
    switch (error) {
        case CoordinatorClient::ConnectError::unresolved: return "name does not resolve";
        case CoordinatorClient::ConnectError::refused: return "refused";
        case CoordinatorClient::ConnectError::no_answer: return "no answer";
        case CoordinatorClient::ConnectError::wrong_protocol: return "wrong protocol";
        case CoordinatorClient::ConnectError::wrong_version: return "wrong version";
        case CoordinatorClient::ConnectError::wrong_secret: return "wrong secret";
        case CoordinatorClient::ConnectError::not_encrypted: return "not encrypted";
        case CoordinatorClient::ConnectError::needs_secret: return "needs secret";
        case CoordinatorClient::ConnectError::lost: return "connection lost";
    }
    return "?";
}

}  // namespace ddprun::client
