// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/peer_calls.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/net/deadline.hpp"
#include "rendezvous/tls/session.hpp"
#include "rendezvous/voters/vote_text.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::agent {
namespace peer_calls {
namespace {

/// Empty if calls are not encrypted.
using Session = std::optional<tls::Session>;

// The coroutines below refer to sockets and sessions of their caller, whose frame waits for them.

boost::asio::awaitable<bool> write(net::Tcp::socket& socket, std::string bytes) {
    if (bytes.empty()) co_return true;
    const auto [ec, count] =
        co_await boost::asio::async_write(socket, boost::asio::buffer(bytes), net::as_values);
    co_return !ec;
}

/// Reads and decrypts the next bytes; false at the end.
boost::asio::awaitable<bool> read_some(
    net::Tcp::socket& socket, Session& session, std::string& text) {
    std::array<char, 1024> chunk{};
    const auto [ec, size] =
        co_await socket.async_read_some(boost::asio::buffer(chunk), net::as_values);
    if (ec) co_return false;
    const std::string_view bytes{chunk.data(), size};
    if (!session) {
        text += bytes;
        co_return true;
    }
    const bool goes_on = session->receive(bytes, text).has_value();
    co_return co_await write(socket, session->take_output()) && goes_on;
}

/// With the protocol before it and its line feed.
constexpr std::size_t max_vote_bytes =
    voters::vote_protocol.size() + limits::max_vote_line_bytes + 1;

/// The longest line of a call that begins like this.
std::size_t most_bytes_after(std::string_view begin) {
    return begin.starts_with(voters::vote_protocol) ? max_vote_bytes : max_peer_line_bytes;
}

/// Reads one line, and returns it without its line feed. Empty: the connection ended first, or the
/// line is too long, or more bytes follow it. `most_bytes`: a function of what was read.
template <class MostBytes>
boost::asio::awaitable<std::string> read_line(
    net::Tcp::socket& socket, Session& session, MostBytes most_bytes) {
    std::string text;
    while (co_await read_some(socket, session, text))
        if (const auto whole = peer_line(text, most_bytes(text))) co_return std::string{*whole};
    co_return std::string{};
}

/// Does the handshake, in which both sides prove the secret, then writes the line.
boost::asio::awaitable<bool> say(net::Tcp::socket& socket, Session& session, std::string line) {
    if (!session) co_return co_await write(socket, std::move(line));
    std::string text;
    if (!co_await write(socket, session->take_output())) co_return false;
    while (!session->is_established())
        if (!co_await read_some(socket, session, text)) co_return false;
    session->send(line);
    co_return co_await write(socket, session->take_output());
}

/// The line of the answer is empty if none came in time.
boost::asio::awaitable<PeerCalls::VoteReply> question(
    Endpoint to, std::string line, std::size_t most_bytes, Duration timeout, Session session) {
    PeerCalls::VoteReply reply;
    error_code ec;
    const auto addr = boost::asio::ip::make_address(to.host, ec);
    if (ec) co_return reply;

    net::Tcp::socket socket(co_await boost::asio::this_coro::executor);
    const net::Deadline deadline(socket.get_executor(), timeout, [&] { net::close(socket); });
    const net::Tcp::endpoint endpoint(addr, to.port);
    std::tie(ec) = co_await socket.async_connect(endpoint, net::as_values);
    reply.is_refused = ec == boost::asio::error::connection_refused;
    if (ec || deadline.has_passed()) co_return reply;
    net::prepare(socket);
    const bool is_said = co_await say(socket, session, std::move(line));
    if (!is_said || deadline.has_passed()) co_return reply;
    reply.line =
        co_await read_line(socket, session, [most_bytes](std::string_view) { return most_bytes; });
    co_return reply;
}

}  // namespace
}  // namespace peer_calls

struct PeerCalls::Caller {
    Caller(net::Tcp::socket taken, Duration timeout, peer_calls::Session taken_session)
        : socket(std::move(taken)),
          session(std::move(taken_session)),
          deadline(socket.get_executor(), timeout, [this] { net::close(socket); }) {}

    net::Tcp::socket socket;
    peer_calls::Session session;
    net::Deadline deadline;
};

struct PeerCalls::State {
    Hooks hooks;
    Duration answer_timeout{};
    std::optional<tls::Secrets> secrets;
    std::function<Nonce()> own_nonce;
    int last_caller = 0;
    std::map<int, std::shared_ptr<Caller>> callers;
    std::optional<Votes> votes;
    bool is_over = false;

    peer_calls::Session session_of_caller();
    using KeyOf = tls::Key (tls::Secrets::*)(const Nonce&) const;
    peer_calls::Session session_towards(const Nonce& callee, KeyOf key_of) const;
    /// Towards a `ddprun-rendezvous`, as on a control connection.
    peer_calls::Session session_towards_server() const;
    /// The line of the answer to a request of a vote; empty: none.
    std::string answer_to_vote(std::string_view line) const;
};

/// The session refers to this object, which outlives it.
peer_calls::Session PeerCalls::State::session_of_caller() {
    if (!secrets) return std::nullopt;
    return tls::Session::for_server([this, callee = own_nonce()](std::string_view identity) {
        auto key = secrets->find_peer_key(identity, callee);
        if (!votes) return key;
        for (auto voter = votes->voters.begin(); !key && voter != votes->voters.end(); ++voter)
            key = secrets->find_vote_key(identity, *voter);
        return key;
    });
}

peer_calls::Session PeerCalls::State::session_towards(const Nonce& callee, KeyOf key_of) const {
    if (!secrets) return std::nullopt;
    return tls::Session::for_client(((*secrets).*key_of)(callee));
}

peer_calls::Session PeerCalls::State::session_towards_server() const {
    if (!secrets) return std::nullopt;
    return tls::Session::for_client(secrets->control_key());
}

std::string PeerCalls::State::answer_to_vote(std::string_view line) const {
    if (!votes) return std::string{voters::no_voter_line};
    return votes->answer(line.substr(voters::vote_protocol.size()));
}

PeerCalls::PeerCalls(
    boost::asio::io_context& io,
    Hooks hooks,
    Duration answer_timeout,
    std::optional<Security> security)
    : io_(io),
      state_(std::make_shared<State>()) {
    state_->hooks = std::move(hooks);
    state_->answer_timeout = answer_timeout;
    if (!security) return;
    state_->secrets.emplace(std::move(security->secret));
    state_->own_nonce = std::move(security->own_nonce);
}

PeerCalls::~PeerCalls() {
    if (listener_) listener_->close();
    state_->is_over = true;
    state_->callers.clear();
}

bool PeerCalls::has_secret() const {
    return state_->secrets.has_value();
}

void PeerCalls::listen(net::Tcp::acceptor acceptor) {
    listener_ = std::make_shared<server::Listener>(
        std::move(acceptor),
        [this](net::Tcp::socket socket) { take(std::move(socket)); },
        server::Listener::Callers::own_user_on_loopback);
    listener_->start();
}

void PeerCalls::take(net::Tcp::socket socket) {
    auto& callers = state_->callers;
    if (callers.size() >= limits::max_peer_callers) {
        net::close(callers.begin()->second->socket);
        callers.erase(callers.begin());
    }
    const int number = ++state_->last_caller;
    callers.emplace(
        number,
        std::make_shared<Caller>(
            std::move(socket), state_->answer_timeout, state_->session_of_caller()));
    boost::asio::co_spawn(io_, hear(state_, number), boost::asio::detached);
}

boost::asio::awaitable<void> PeerCalls::hear(std::shared_ptr<State> state, int number) {
    const auto found = state->callers.find(number);
    if (found == state->callers.end()) co_return;
    const auto caller = found->second;
    const auto line = co_await peer_calls::read_line(
        caller->socket, caller->session, peer_calls::most_bytes_after);
    if (state->is_over || !state->callers.contains(number)) co_return;
    if (const auto probe = parse_peer_probe(line)) co_return state->hooks.on_asked(number, *probe);
    if (line.starts_with(voters::vote_protocol))
        if (auto answer = state->answer_to_vote(line); !answer.empty())
            co_await peer_calls::say(caller->socket, caller->session, std::move(answer));
    net::close(caller->socket);
    state->callers.erase(number);
}

void PeerCalls::answer(int caller, const std::optional<PeerAnswer>& answer) {
    const auto found = state_->callers.extract(caller);
    if (found.empty()) return;
    auto& socket = found.mapped()->socket;
    auto& session = found.mapped()->session;
    if (answer) {
        // An empty socket buffer takes one short line at once; if it does not, the caller is gone.
        auto line = encode(*answer);
        if (session) {
            session->send(line);
            line = session->take_output();
        }
        error_code ignored;
        socket.non_blocking(true, ignored);
        boost::asio::write(socket, boost::asio::buffer(line), ignored);
    }
    net::close(socket);
}

void PeerCalls::ask(Neighbours::Ask ask) {
    boost::asio::co_spawn(io_, call(state_, std::move(ask)), boost::asio::detached);
}

boost::asio::awaitable<void> PeerCalls::call(std::shared_ptr<State> state, Neighbours::Ask ask) {
    const auto reply = co_await peer_calls::question(
        ask.to,
        encode(ask.probe),
        max_peer_line_bytes,
        state->answer_timeout,
        state->session_towards(ask.probe.to, &tls::Secrets::peer_key));
    if (!state->is_over) state->hooks.on_answered(ask.id, parse_peer_answer(reply.line));
}

void PeerCalls::serve_votes(std::optional<Votes> votes) {
    state_->votes = std::move(votes);
}

void PeerCalls::ask_voter(
    control::VoterAddress to, const Nonce& voter, const std::string& request, OnVote on_answer) {
    const auto node = to.is_witness ? std::nullopt : std::optional{voter};
    ask_for_vote(std::move(to.endpoint), node, request, std::move(on_answer));
}

void PeerCalls::identify(Endpoint witness, const voters::Identify& request, OnVote on_answer) {
    ask_for_vote(std::move(witness), std::nullopt, voters::encode(request), std::move(on_answer));
}

void PeerCalls::ask_for_vote(
    Endpoint to, std::optional<Nonce> node, const std::string& request, OnVote on_answer) {
    auto line = std::string{voters::vote_protocol} + request;
    boost::asio::co_spawn(
        io_,
        call_voter(state_, std::move(to), node, std::move(line), std::move(on_answer)),
        boost::asio::detached);
}

boost::asio::awaitable<void> PeerCalls::call_voter(
    std::shared_ptr<State> state,
    Endpoint to,
    std::optional<Nonce> node,
    std::string line,
    OnVote on_answer) {
    auto session = node ? state->session_towards(*node, &tls::Secrets::vote_key)
                        : state->session_towards_server();
    const auto reply = co_await peer_calls::question(
        std::move(to),
        std::move(line),
        peer_calls::max_vote_bytes,
        state->answer_timeout,
        std::move(session));
    if (!state->is_over) on_answer(reply);
}

}  // namespace ddprun::agent
