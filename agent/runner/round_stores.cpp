// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/round_stores.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/server/store_loop.hpp"

#include <boost/asio/post.hpp>

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <future>
#include <random>
#include <string_view>
#include <utility>

namespace ddprun::agent {
namespace {

/// The minimum number of attempts, also for a smaller range or if any free port is allowed.
constexpr int fewest_attempts = 64;
constexpr int most_attempts = 4096;

bool is_free(boost::asio::io_context& io, const std::string& host, std::uint16_t port) {
    return net::listen(io, host, port).has_value();
}

}  // namespace

std::string own_listen_host(const AgentConfig& config, const std::vector<std::string>& own) {
    // With --local-addr all callers use that address.
    if (const auto& addr = config.join.addr; !addr.empty())
        return std::find(own.begin(), own.end(), addr) == own.end() ? "" : addr;
    // The endpoint of an engine is a server or proxy of it. Even if that is on this machine, other
    // nodes may be elsewhere.
    if (config.rendezvous.has_outside_engine() && config.join.nodes.max > 1) return "";
    const auto& server_host = config.rendezvous.endpoint.host;
    // The resolver may return an address of each family; 127.0.0.1 comes first.
    if (server_host == "localhost") return "127.0.0.1";
    return is_loopback(server_host) ? server_host : "";
}

std::string address_for_others(
    const std::string& on_the_way_to_engine, const std::vector<std::string>& own) {
    if (!is_loopback(on_the_way_to_engine)) return on_the_way_to_engine;
    const auto is_for_others = [](const std::string& address) {
        // A link-local address can only be used together with the name of its interface.
        return !is_loopback(address) && !address.starts_with("fe80:") &&
               !address.starts_with("169.254.");
    };
    const auto found = std::find_if(own.begin(), own.end(), is_for_others);
    return found == own.end() ? on_the_way_to_engine : *found;
}

PortRange own_ports(const AgentConfig& config) {
    PortRange range{config.first_port, config.last_port};
    for (const auto& place : config.rendezvous.places())
        range.kept_free.push_back(place.port);
    return range;
}

bool PortRange::is_allowed(int port) const {
    return std::none_of(kept_free.begin(), kept_free.end(), [port](int kept) {
        return kept != 0 && (port == kept || port + 1 == kept);
    });
}

Result<net::Tcp::acceptor> listen_in_range(
    boost::asio::io_context& io, const std::string& host, PortRange range, Random& random) {
    Result<net::Tcp::acceptor> acceptor = Failure{boost::asio::error::address_in_use, "listen"};
    const int count = range.last - range.first + 1;
    const int start = std::uniform_int_distribution<int>(0, count - 1)(random);
    for (int i = 0; i < std::clamp(count, fewest_attempts, most_attempts); ++i) {
        const int candidate = range.first + (start + i) % count;
        if (candidate != 0 && !range.is_allowed(candidate)) continue;
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

namespace round_stores {
namespace {

const std::string own_address = "127.0.0.1";

/// Logs only the first error of this process: descriptors remain scarce once they run out.
void complain_once(const error_code& why) {
    static std::atomic<bool> has_complained{false};
    if (has_complained.exchange(true)) return;
    rlimit descriptors{};
    ::getrlimit(RLIMIT_NOFILE, &descriptors);
    log::error(
        "tunnel.no_descriptors",
        {{"error", why.message()},
         {"limit", static_cast<std::uint64_t>(descriptors.rlim_cur)},
         {"effect",
          "connections of other nodes' workers to the store are closed: each takes two descriptors "
          "here (RLIMIT_NOFILE)"}});
}

/// Makes a pair of sockets: one becomes a client of the store, the other one is returned. The
/// returned socket is closed if there are no descriptors.
TunnelLink::Socket join(
    boost::asio::io_context& io, server::StoreServer& store, const std::string& name) {
    TunnelLink::Socket socket(io);
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
        complain_once(system_code(errno));
        return socket;
    }
    error_code ec;
    net::Tcp::socket for_store(io);
    // The store uses only the descriptor, so the protocol given here does not matter.
    for_store.assign(net::Tcp::v4(), ends[0], ec);
    if (ec) ::close(ends[0]);
    socket.assign(boost::asio::generic::stream_protocol(AF_UNIX, 0), ends[1], ec);
    if (ec) ::close(ends[1]);
    if (for_store.is_open()) store.adopt_as(std::move(for_store), name);
    return socket;
}

}  // namespace
}  // namespace round_stores

using round_stores::own_address;

std::optional<RoundStores::Members> RoundStores::members_of(const AgentConfig& config) {
    if (!config.has_members_store()) return std::nullopt;
    require(config.secret.has_value(), "members are those that have a secret");
    const auto& nodes = config.join.nodes;
    return Members{*config.secret, nodes.max + nodes.spares == 1};
}

RoundStores::RoundStores(
    boost::asio::io_context& agent,
    std::string host,
    PortRange range,
    wire::Accepted accepted,
    OnWait on_wait,
    std::optional<Members> members)
    : agent_(agent),
      work_(boost::asio::make_work_guard(io_)),
      host_(std::move(host)),
      range_(range),
      accepted_(accepted),
      on_wait_(std::move(on_wait)),
      random_(seeded_by_the_system()),
      has_one_node_(members && members->has_one_node),
      secrets_(
          members ? std::make_shared<const tls::Secrets>(std::move(members->secret)) : nullptr),
      thread_([this] { server::run_store_loop(io_); }) {}

RoundStores::~RoundStores() {
    boost::asio::post(io_, [this] {
        close_door();
        stores_.clear();
        draining_.clear();
        lingering_.clear();
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
    auto acceptor = listen_in_range(io_, has_one_node_ ? own_address : host_, range_, random_);
    if (!acceptor) return acceptor.error();
    error_code ec;
    const auto port = acceptor->local_endpoint(ec).port();
    if (ec) return Failure{ec, "worker store"};
    Open open{std::make_unique<server::StoreServer>(io_, server::StoreBounds{}, accepted_)};
    if (!secrets_)
        open.store->serve(std::move(*acceptor));
    else if (has_one_node_)
        open.store->serve_own_user(std::move(*acceptor));
    else
        open.tunnels = std::move(*acceptor);
    if (on_wait_)
        open.store->watch_waits([this, port](control::StoreWait wait) {
            boost::asio::post(agent_, [this, port, wait = std::move(wait)]() mutable {
                on_wait_(port, std::move(wait));
            });
        });
    stores_.insert_or_assign(port, std::move(open));
    return port;
}

Result<std::uint16_t> RoundStores::enter(Round round, StoreDoor::OnReached on_reached) {
    const auto in_agent = [this, on_reached = std::move(on_reached)](StoreDoor::Reached reached) {
        boost::asio::post(
            agent_, [on_reached, reached = std::move(reached)] { on_reached(reached); });
    };
    // Only the handler owns the promise: if the handler is destroyed for lack of memory, the wait
    // ends too.
    auto entered = std::make_shared<std::promise<Result<std::uint16_t>>>();
    auto answer = entered->get_future();
    boost::asio::post(
        io_, [this, round = std::move(round), in_agent, entered = std::exchange(entered, nullptr)] {
            entered->set_value(enter_now(round, in_agent));
        });
    try {
        return answer.get();
    } catch (const std::future_error&) {
        return Failure{system_code(ENOMEM), "worker store"};
    }
}

Result<std::uint16_t> RoundStores::enter_now(const Round& round, StoreDoor::OnReached on_reached) {
    close_door();
    if (round.is_here) {
        auto port = enter_here(round);
        if (port) on_reached({});
        return port;
    }
    auto acceptor = listen_in_range(io_, own_address, {0, 0, range_.kept_free}, random_);
    if (!acceptor) return Failure{acceptor.error().code, "listen at 127.0.0.1"};
    error_code ec;
    const auto port = acceptor->local_endpoint(ec).port();
    if (ec) return Failure{ec, "worker store"};
    door_round_ = round.round;
    door_ = std::make_shared<StoreDoor>(
        io_,
        round.store,
        [secrets = secrets_, round] { return secrets->store_key(round.incarnation, round.round); },
        std::move(on_reached));
    door_->open(std::move(*acceptor));
    return port;
}

Result<std::uint16_t> RoundStores::enter_here(const Round& round) {
    const auto found = stores_.find(round.store.port);
    if (found == stores_.end()) return Failure{system_code(ENOENT), "worker store"};
    auto& open = found->second;
    if (has_one_node_) return round.store.port;
    require(open.tunnels.has_value(), "a store is used in one round");
    auto acceptor = listen_in_range(io_, own_address, {0, 0, range_.kept_free}, random_);
    if (!acceptor) return Failure{acceptor.error().code, "listen at 127.0.0.1"};
    error_code ec;
    const auto port = acceptor->local_endpoint(ec).port();
    if (ec) return Failure{ec, "worker store"};
    open.store->serve_own_user(std::move(*acceptor));
    open_tunnel_port(open, round);
    return port;
}

void RoundStores::open_tunnel_port(Open& open, const Round& round) {
    auto* const store = open.store.get();
    TunnelPort::Hooks hooks{
        [secrets = secrets_, round](std::string_view identity) {
            return secrets->find_store_key(identity, round.incarnation, round.round);
        },
        [this, store](const std::string& name) { return round_stores::join(io_, *store, name); },
        [store] { return store->now(); }};
    open.tunnel_port = std::make_unique<TunnelPort>(
        io_, std::move(*std::exchange(open.tunnels, std::nullopt)), std::move(hooks));
}

void RoundStores::leave(int round) {
    boost::asio::post(io_, [this, round] {
        if (door_round_ == round) close_door();
    });
}

void RoundStores::close_door() {
    if (door_) door_->close();
    door_.reset();
}

void RoundStores::close(std::uint16_t port) {
    boost::asio::post(io_, [this, port] {
        const auto found = stores_.find(port);
        if (found == stores_.end()) return;
        // A later round may get the same port while this store drains.
        auto* const store = found->second.store.get();
        found->second.tunnels.reset();
        if (found->second.tunnel_port) found->second.tunnel_port->finish();
        draining_.push_back(std::move(found->second));
        stores_.erase(found);
        store->drain(limits::flush_timeout, [this, store] {
            // Posted, since the store must not be destroyed inside its own callback.
            boost::asio::post(io_, [this, store] { remove_drained(store); });
        });
    });
}

void RoundStores::wait_until_closed() {
    std::promise<void> closed;
    boost::asio::post(io_, [&] { closed.set_value(); });
    closed.get_future().wait();
}

/// The store may be gone already: this object's end closes all stores, including drained ones.
void RoundStores::remove_drained(const server::StoreServer* store) {
    const auto found = std::find_if(draining_.begin(), draining_.end(), [&](const auto& each) {
        return each.store.get() == store;
    });
    if (found == draining_.end()) return;
    past_requests_ += found->store->counters().requests;
    // Moved out first: `erase` moves another element into this place, which would destroy the store
    // before its tunnel port.
    auto port = std::move(found->tunnel_port);
    draining_.erase(found);
    linger(std::move(port));
}

/// The store has written its last answers to the tunnels. The tunnel port is kept a while so that
/// other nodes can read these answers.
void RoundStores::linger(std::unique_ptr<TunnelPort> port) {
    if (!port) return;
    const auto entry = lingering_.insert(
        lingering_.end(),
        Lingering{std::move(port), boost::asio::steady_timer(io_, limits::flush_timeout)});
    entry->end.async_wait([this, entry](const boost::system::error_code& ec) {
        if (!ec) lingering_.erase(entry);
    });
}

void RoundStores::survey(std::function<void(server::StoreSurvey)> answer) {
    boost::asio::post(io_, [this, answer = std::move(answer)] {
        server::StoreSurvey sum;
        sum.requests = past_requests_;
        for (const auto& open : draining_)
            sum.requests += open.store->counters().requests;
        for (const auto& [port, open] : stores_)
            sum.add(open.store->survey());
        answer(std::move(sum));
    });
}

}  // namespace ddprun::agent
