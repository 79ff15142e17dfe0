// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/store_check.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/net/deadline.hpp"
#include "rendezvous/net/tcp.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include <chrono>
#include <utility>

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;

constexpr Duration pause_between_connects = 100ms;

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

}  // namespace

void check_store(
    boost::asio::io_context& io, Endpoint store, std::function<void(std::string)> on_done) {
    boost::asio::co_spawn(io, reach(std::move(store), std::move(on_done)), boost::asio::detached);
}

}  // namespace ddprun::agent
