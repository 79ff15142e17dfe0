// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/round_stores.hpp"

#include "rendezvous/base/limits.hpp"

#include <boost/asio/post.hpp>

#include <future>
#include <random>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr int listen_attempts = 64;

bool is_free(boost::asio::io_context& io, const std::string& host, std::uint16_t port) {
    return net::listen(io, host, port).has_value();
}

}  // namespace

std::string own_listen_host(const AgentConfig& config) {
    const auto& meeting = config.rendezvous.endpoint.host;
    const bool is_only_node = config.nodes.max == 1 && config.nodes.spares == 0;
    const bool is_local = meeting == "localhost" || meeting == "127.0.0.1";
    // With --local-addr the workers are told that address.
    return is_only_node && is_local && config.local_addr.empty() ? "127.0.0.1" : "";
}

Result<net::Tcp::acceptor> listen_in_range(
    boost::asio::io_context& io, const std::string& host, PortRange range, Random& random) {
    Result<net::Tcp::acceptor> acceptor = Failure{boost::asio::error::address_in_use, "listen"};
    std::uniform_int_distribution<int> any_port(range.first, range.last);
    for (int attempt = 0; attempt < listen_attempts; ++attempt) {
        acceptor = net::listen(io, host, static_cast<std::uint16_t>(any_port(random)));
        if (!acceptor) continue;
        error_code ec;
        const auto port = acceptor->local_endpoint(ec).port();
        const bool has_successor = port < range.last || range.last == 0;
        if (!has_successor || is_free(io, host, static_cast<std::uint16_t>(port + 1)))
            return acceptor;
    }
    if (acceptor) return acceptor;
    return Failure{
        acceptor.error().code,
        "no free port between " + std::to_string(range.first) + " and " +
            std::to_string(range.last) + " (--port-range)"};
}

RoundStores::RoundStores(boost::asio::io_context& agent, std::string host, PortRange range)
    : agent_(agent),
      work_(boost::asio::make_work_guard(io_)),
      host_(std::move(host)),
      range_(range),
      random_(seeded_by_the_system()),
      thread_([this] { io_.run(); }) {}

RoundStores::~RoundStores() {
    std::promise<void> closed;
    boost::asio::post(io_, [&] {
        stores_.clear();
        draining_.clear();
        closed.set_value();
    });
    closed.get_future().wait();
    io_.stop();
    thread_.join();
}

void RoundStores::open(OnOpened on_opened) {
    boost::asio::post(io_, [this, on_opened = std::move(on_opened)]() mutable {
        boost::asio::post(
            agent_, [on_opened = std::move(on_opened), port = open_now()] { on_opened(port); });
    });
}

Result<std::uint16_t> RoundStores::open_now() {
    auto acceptor = listen_in_range(io_, host_, range_, random_);
    if (!acceptor) return acceptor.error();
    error_code ec;
    const auto port = acceptor->local_endpoint(ec).port();
    if (ec) return Failure{ec, "worker store"};
    auto store = std::make_unique<server::StoreServer>(io_);
    store->serve(std::move(*acceptor));
    stores_.insert_or_assign(port, std::move(store));
    return port;
}

void RoundStores::close(std::uint16_t port) {
    boost::asio::post(io_, [this, port] {
        const auto found = stores_.find(port);
        if (found == stores_.end()) return;
        // The port may be given to a later round while this one drains.
        auto* const store = found->second.get();
        draining_.push_back(std::move(found->second));
        stores_.erase(found);
        store->drain(limits::flush_timeout, [this, store] {
            // Not from inside its own callback.
            boost::asio::post(io_, [this, store] {
                past_requests_ += store->counters().requests;
                std::erase_if(draining_, [&](const auto& each) { return each.get() == store; });
            });
        });
    });
}

void RoundStores::survey(std::function<void(server::StoreSurvey)> answer) {
    boost::asio::post(io_, [this, answer = std::move(answer)] {
        server::StoreSurvey sum;
        sum.requests = past_requests_;
        for (const auto& store : draining_)
            sum.requests += store->counters().requests;
        for (const auto& [port, store] : stores_)
            sum.add(store->survey());
        answer(std::move(sum));
    });
}

}  // namespace ddprun::agent
