// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/store_calls.hpp"

#include "agent/plan/death_note.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/client/client_session.hpp"
#include "rendezvous/net/deadline.hpp"
#include "rendezvous/net/tcp.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;

constexpr Duration pause_between_connects = 100ms;
/// Late notices are for workers that begin to create a group while they are being stopped.
constexpr Duration pause_between_late_notices = 100ms;

boost::asio::awaitable<void> reach(Endpoint store, std::function<void(std::string)> on_done) {
    const auto executor = co_await boost::asio::this_coro::executor;
    const net::Deadline deadline(executor, limits::store_reachability_timeout, [] {});
    boost::asio::steady_timer pause(executor);
    for (;;) {
        auto addresses = co_await net::resolve(store);
        Failure failure;
        if (addresses) {
            auto socket = co_await net::connect(std::move(*addresses));
            if (socket) co_return on_done({});
            failure = socket.error();
        } else {
            failure = addresses.error();
        }
        if (deadline.has_passed())
            co_return on_done(
                "the worker store of this round is out of reach: " + failure.describe() +
                "; say with --local-addr on the first node which address others can reach");
        pause.expires_after(pause_between_connects);
        co_await pause.async_wait(net::as_values);
    }
}

/// One connection to the store, and the notice that is written through it.
class Notice {
public:
    explicit Notice(DeathNote note) : note_(std::move(note)) {}

    boost::asio::awaitable<void> give() {
        auto addresses = co_await net::resolve(note_.store);
        if (!addresses) co_return;
        auto socket = co_await net::connect(std::move(*addresses));
        if (!socket) co_return;
        socket_ = std::move(*socket);
        co_await write();
    }

    /// Repeats the notice for workers that begin to create a group after the death. Ends when a
    /// worker has requested notices, or when the store is closed with its round.
    boost::asio::awaitable<void> give_late() {
        boost::asio::steady_timer pause(co_await boost::asio::this_coro::executor);
        while (is_unasked_) {
            pause.expires_after(pause_between_late_notices);
            co_await pause.async_wait(net::as_values);
            co_await write();
        }
    }

private:
    boost::asio::awaitable<void> write() {
        is_unasked_ = false;
        auto expected = std::string{store_names::no_deaths};
        while (auto desired = with_deaths(expected, note_.ranks)) {
            session_.send(wire::CompareSet{note_.key, expected, *desired});
            auto stored = co_await answer();
            // The store also returns the expected text if the key does not exist: then no worker
            // has asked for notices yet.
            is_unasked_ = stored && *stored == expected;
            if (!stored || *stored == *desired || is_unasked_) co_return;
            expected = std::move(*stored);
        }
    }

    boost::asio::awaitable<std::optional<std::string>> answer() {
        const auto output = session_.output();
        const auto [failed, written] = co_await boost::asio::async_write(
            *socket_, boost::asio::buffer(output.data(), output.size()), net::as_values);
        if (failed) co_return std::nullopt;
        session_.sent(written);
        std::array<char, 1024> chunk{};
        for (;;) {
            auto reply = session_.next();
            if (!reply) co_return std::nullopt;
            if (*reply) {
                auto* value = std::get_if<wire::Value>(&**reply);
                if (value == nullptr) co_return std::nullopt;
                co_return std::move(value->value).take();
            }
            const auto [ec, size] =
                co_await socket_->async_read_some(boost::asio::buffer(chunk), net::as_values);
            if (ec) co_return std::nullopt;
            session_.receive({chunk.data(), size});
        }
    }

    DeathNote note_;
    client::ClientSession session_{client::ClientSession::Greeting::validate};
    std::optional<net::Tcp::socket> socket_;
    bool is_unasked_ = false;
};

boost::asio::awaitable<void> run(DeathNote note, std::function<void()> on_done) {
    const auto call_back = [&on_done] {
        if (on_done) std::exchange(on_done, {})();
    };
    const net::Deadline deadline(
        co_await boost::asio::this_coro::executor, limits::death_notice_timeout, call_back);
    Notice notice(std::move(note));
    co_await notice.give();
    call_back();
    co_await notice.give_late();
}

}  // namespace

void check_store(
    boost::asio::io_context& io, Endpoint store, std::function<void(std::string)> on_done) {
    boost::asio::co_spawn(io, reach(std::move(store), std::move(on_done)), boost::asio::detached);
}

void give_notice(boost::asio::io_context& io, DeathNote note, std::function<void()> on_done) {
    boost::asio::co_spawn(io, run(std::move(note), std::move(on_done)), boost::asio::detached);
}

}  // namespace ddprun::agent
