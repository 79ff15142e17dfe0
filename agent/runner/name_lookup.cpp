// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/name_lookup.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/net/tcp.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/steady_timer.hpp>

#include <utility>

namespace ddprun::agent {

struct NameLookup::State {
    explicit State(boost::asio::io_context& io) : timer(io) {}

    boost::asio::steady_timer timer;
    std::vector<std::string> addresses;
    bool is_done = false;
};

NameLookup::NameLookup(boost::asio::io_context& io, const Endpoint& endpoint)
    : state_(std::make_shared<State>(io)) {
    // The resolver costs a thread and reads three files; the usual names need neither.
    error_code ec;
    const auto* written = endpoint.host == "localhost" ? "127.0.0.1" : endpoint.host.c_str();
    const auto numeric = boost::asio::ip::make_address(written, ec);
    if (!ec) {
        state_->addresses = {unwrap_mapped(numeric.to_string())};
        state_->is_done = true;
        return;
    }
    state_->timer.expires_after(limits::resolve_timeout);
    boost::asio::co_spawn(io, run(endpoint, state_), rethrow);
}

boost::asio::awaitable<std::vector<std::string>> NameLookup::addresses() {
    // This object need not outlive the wait.
    const auto state = state_;
    if (!state->is_done) co_await state->timer.async_wait(net::as_values);
    co_return state->addresses;
}

boost::asio::awaitable<void> NameLookup::run(Endpoint endpoint, std::shared_ptr<State> state) {
    const auto found = co_await net::resolve(std::move(endpoint));
    if (found)
        for (const auto& each : *found)
            state->addresses.push_back(unwrap_mapped(each.address().to_string()));
    state->is_done = true;
    state->timer.cancel();
}

void rethrow(std::exception_ptr error) {
    if (error) std::rethrow_exception(std::move(error));
}

}  // namespace ddprun::agent
