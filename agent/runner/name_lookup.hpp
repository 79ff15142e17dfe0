// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::agent {

/// Looks up the host of an endpoint, from its construction on. The resolver has one thread, so the
/// wait for several of them ends together.
class NameLookup {
public:
    NameLookup(boost::asio::io_context& io, const Endpoint& endpoint);

    /// The numeric addresses; empty: there are none, or not within limits::resolve_timeout.
    boost::asio::awaitable<std::vector<std::string>> addresses();

private:
    struct State;

    /// A lookup cannot be interrupted: its answer may come when it is no longer awaited.
    static boost::asio::awaitable<void> run(Endpoint endpoint, std::shared_ptr<State> state);

    std::shared_ptr<State> state_;
};

/// Called at the end of a coroutine. `detached` would drop an exception (e.g. no thread can be
/// started), and what awaits the coroutine would have no outcome. So the exception leaves the
/// agent's loop and ends the agent with its reason. No worker runs yet.
void rethrow(std::exception_ptr error);

}  // namespace ddprun::agent
