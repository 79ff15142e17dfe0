// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/peer_calls.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/net/deadline.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::agent {
namespace peer_calls {
namespace {

/// A line that was read to its end, without it. Empty: the end came first, or too much came.
using Line = std::array<char, max_peer_line_bytes>;

boost::asio::awaitable<std::string_view> read_line(net::Tcp::socket& socket, Line& line) {
    std::size_t size = 0;
    while (size < line.size()) {
        const auto [ec, count] = co_await socket.async_read_some(
            boost::asio::buffer(line.data() + size, line.size() - size), net::as_values);
        if (ec) co_return std::string_view{};
        size += count;
        if (const auto whole = peer_line({line.data(), size})) co_return *whole;
    }
    co_return std::string_view{};
}

boost::asio::awaitable<std::optional<PeerAnswer>> question(
    Endpoint to, std::string line, Duration timeout) {
    error_code ec;
    const auto addr = boost::asio::ip::make_address(to.host, ec);
    if (ec) co_return std::nullopt;

    net::Tcp::socket socket(co_await boost::asio::this_coro::executor);
    const net::Deadline deadline(socket.get_executor(), timeout, [&] { net::close(socket); });
    const net::Tcp::endpoint endpoint(addr, to.port);
    std::tie(ec) = co_await socket.async_connect(endpoint, net::as_values);
    if (ec || deadline.has_passed()) co_return std::nullopt;
    net::prepare(socket);
    std::tie(ec, std::ignore) =
        co_await boost::asio::async_write(socket, boost::asio::buffer(line), net::as_values);
    if (ec || deadline.has_passed()) co_return std::nullopt;
    Line answer{};
    co_return parse_peer_answer(co_await read_line(socket, answer));
}

}  // namespace
}  // namespace peer_calls

struct PeerCalls::Caller {
    Caller(net::Tcp::socket taken, Duration timeout)
        : socket(std::move(taken)),
          deadline(socket.get_executor(), timeout, [this] { net::close(socket); }) {}

    net::Tcp::socket socket;
    net::Deadline deadline;
};

struct PeerCalls::State {
    Hooks hooks;
    Duration answer_timeout{};
    int last_caller = 0;
    std::map<int, std::shared_ptr<Caller>> callers;
    bool is_over = false;
};

PeerCalls::PeerCalls(boost::asio::io_context& io, Hooks hooks, Duration answer_timeout)
    : io_(io),
      state_(std::make_shared<State>()) {
    state_->hooks = std::move(hooks);
    state_->answer_timeout = answer_timeout;
}

PeerCalls::~PeerCalls() {
    state_->is_over = true;
    state_->callers.clear();
}

void PeerCalls::take(net::Tcp::socket socket) {
    auto& callers = state_->callers;
    if (callers.size() >= limits::max_peer_callers) {
        net::close(callers.begin()->second->socket);
        callers.erase(callers.begin());
    }
    const int number = ++state_->last_caller;
    callers.emplace(number, std::make_shared<Caller>(std::move(socket), state_->answer_timeout));
    boost::asio::co_spawn(io_, hear(state_, number), boost::asio::detached);
}

boost::asio::awaitable<void> PeerCalls::hear(std::shared_ptr<State> state, int number) {
    const auto found = state->callers.find(number);
    if (found == state->callers.end()) co_return;
    const auto caller = found->second;
    peer_calls::Line line{};
    const auto probe = parse_peer_probe(co_await peer_calls::read_line(caller->socket, line));
    if (state->is_over) co_return;
    if (probe && state->callers.contains(number)) co_return state->hooks.on_asked(number, *probe);
    net::close(caller->socket);
    state->callers.erase(number);
}

void PeerCalls::answer(int caller, const std::optional<PeerAnswer>& answer) {
    const auto found = state_->callers.extract(caller);
    if (found.empty()) return;
    auto& socket = found.mapped()->socket;
    if (answer) {
        // An empty socket takes one short line at once; a caller whose socket does not is gone.
        const auto line = encode(*answer);
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
    const auto answer =
        co_await peer_calls::question(ask.to, encode(ask.probe), state->answer_timeout);
    if (!state->is_over) state->hooks.on_answered(ask.id, answer);
}

}  // namespace ddprun::agent
