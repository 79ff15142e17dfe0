// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/round_stores.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/server/store_loop.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <future>
#include <random>
#include <utility>

namespace ddprun::agent {
namespace {

/// Also where any port will do.
constexpr int fewest_attempts = 64;
constexpr int most_attempts = 4096;

bool is_free(boost::asio::io_context& io, const std::string& host, std::uint16_t port) {
    return net::listen(io, host, port).has_value();
}

}  // namespace

std::string own_listen_host(const AgentConfig& config, const std::vector<std::string>& own) {
    // With --local-addr the workers get that address.
    if (const auto& addr = config.join.addr; !addr.empty())
        return std::find(own.begin(), own.end(), addr) == own.end() ? "" : addr;
    // Then the endpoint is etcd's: a member or proxy of it on this machine says nothing of the nodes.
    if (config.rendezvous.etcd && config.join.nodes.max > 1) return "";
    const auto& server_host = config.rendezvous.endpoint.host;
    // Of both families the resolver gives this one first.
    if (server_host == "localhost") return "127.0.0.1";
    return is_loopback(server_host) ? server_host : "";
}

std::string address_for_others(
    const std::string& on_the_way_to_etcd, const std::vector<std::string>& own) {
    if (!is_loopback(on_the_way_to_etcd)) return on_the_way_to_etcd;
    const auto is_for_others = [](const std::string& address) {
        // Those of one link need its name too.
        return !is_loopback(address) && !address.starts_with("fe80:") &&
               !address.starts_with("169.254.");
    };
    const auto found = std::find_if(own.begin(), own.end(), is_for_others);
    return found == own.end() ? on_the_way_to_etcd : *found;
}

PortRange own_ports(const AgentConfig& config) {
    return {config.first_port, config.last_port, config.rendezvous.endpoint.port};
}

Result<net::Tcp::acceptor> listen_in_range(
    boost::asio::io_context& io, const std::string& host, PortRange range, Random& random) {
    Result<net::Tcp::acceptor> acceptor = Failure{boost::asio::error::address_in_use, "listen"};
    const int count = range.last - range.first + 1;
    const int start = std::uniform_int_distribution<int>(0, count - 1)(random);
    for (int i = 0; i < std::clamp(count, fewest_attempts, most_attempts); ++i) {
        const int candidate = range.first + (start + i) % count;
        if (candidate != 0 && (candidate == range.kept_free || candidate + 1 == range.kept_free))
            continue;
        acceptor = net::listen(io, host, static_cast<std::uint16_t>(candidate));
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

RoundStores::RoundStores(
    boost::asio::io_context& agent,
    std::string host,
    PortRange range,
    wire::Accepted accepted,
    OnWait on_wait)
    : agent_(agent),
      work_(boost::asio::make_work_guard(io_)),
      host_(std::move(host)),
      range_(range),
      accepted_(accepted),
      on_wait_(std::move(on_wait)),
      random_(seeded_by_the_system()),
      thread_([this] { server::run_store_loop(io_); }) {}

RoundStores::~RoundStores() {
    boost::asio::post(io_, [this] {
        stores_.clear();
        draining_.clear();
    });
    wait_until_closed();
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
    auto store = std::make_unique<server::StoreServer>(io_, server::StoreBounds{}, accepted_);
    store->serve(std::move(*acceptor));
    if (on_wait_)
        store->watch_waits([this, port](control::StoreWait wait) {
            boost::asio::post(agent_, [this, port, wait = std::move(wait)]() mutable {
                on_wait_(port, std::move(wait));
            });
        });
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
            boost::asio::post(io_, [this, store] { remove_drained(store); });
        });
    });
}

void RoundStores::wait_until_closed() {
    std::promise<void> closed;
    boost::asio::post(io_, [&] { closed.set_value(); });
    closed.get_future().wait();
}

/// It may be gone: all are closed when this object ends, also one that is about to be removed.
void RoundStores::remove_drained(const server::StoreServer* store) {
    const auto found = std::find_if(
        draining_.begin(), draining_.end(), [&](const auto& each) { return each.get() == store; });
    if (found == draining_.end()) return;
    past_requests_ += (*found)->counters().requests;
    draining_.erase(found);
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
