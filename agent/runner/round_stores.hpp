// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/runner/store_door.hpp"
#include "agent/runner/tunnel_port.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/interfaces.hpp"
#include "rendezvous/server/store_server.hpp"
#include "rendezvous/tls/secret_file.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ddprun::agent {

/// Ports that listeners of ours may take, both ends included; 0 and 0: any free one.
struct PortRange {
    std::uint16_t first = 0;
    std::uint16_t last = 0;
    /// Neither taken nor a port's successor; 0: there is none.
    std::uint16_t kept_free = 0;
};

/// The ports of --port-range, but for that of the endpoint: the job's server may listen there later
/// than this node's own listeners do.
PortRange own_ports(const AgentConfig& config);

/// Where this node's own listeners listen: a numeric address, or empty for everywhere. All nodes of
/// a job whose endpoint is a loopback address are on this machine; with `--local-addr` all callers
/// use that address, which is one of this machine's (`own`) unless others reach it through a
/// translator.
std::string own_listen_host(
    const AgentConfig& config, const std::vector<std::string>& own = server::interface_addresses());

/// The address that an elected server gives other nodes: this machine's on the way to etcd, unless that
/// is a loopback address, as of an etcd on this machine, and it has another one (`own`).
std::string address_for_others(
    const std::string& on_the_way_to_etcd, const std::vector<std::string>& own);

/// Listens on a port of the range whose successor is free too, the first one from a random place
/// on: programs bind MASTER_PORT+1 for purposes of their own.
Result<net::Tcp::acceptor> listen_in_range(
    boost::asio::io_context& io, const std::string& host, PortRange range, Random& random);

/// The worker stores of this node on one thread of their own: each round gets a fresh keyspace on a
/// port of its own, so that no worker ever reads what an earlier round wrote.
///
/// With members-only stores the port is that of the tunnels of other nodes, and this node's workers
/// have a port on the loopback address, whichever node has the store (docs/secrets.md). There is no
/// other way to a store then: what cannot be listened on fails.
class RoundStores {
public:
    using OnOpened = std::function<void(Result<std::uint16_t>)>;

    /// Of stores that only nodes with the secret may use.
    struct Members {
        tls::SecretSource secret;
        /// No other node is ever in the job: there is no port but that on the loopback address.
        bool has_one_node = false;
    };

    /// A round that this node's workers are about to begin.
    struct Round {
        std::string incarnation;
        int round = 0;
        /// As it was assigned.
        Endpoint store;
        bool is_here = false;
    };

    /// A store's long waits (StoreServer::watch_waits).
    using OnWait = std::function<void(std::uint16_t port, control::StoreWait wait)>;

    /// Answers are posted to `agent`.
    RoundStores(
        boost::asio::io_context& agent,
        std::string host,
        PortRange range,
        wire::Accepted accepted,
        OnWait on_wait = {},
        std::optional<Members> members = std::nullopt);
    /// Closes all that are open.
    ~RoundStores();
    RoundStores(const RoundStores&) = delete;
    RoundStores& operator=(const RoundStores&) = delete;

    void open(OnOpened on_opened);
    /// The port on 127.0.0.1 where this node's workers reach the round's store; that of an earlier
    /// round is closed. Waits for the thread of the stores. `on_reached` is called at once where
    /// the store is, and elsewhere as StoreDoor's. Requires: stores are for members only.
    Result<std::uint16_t> enter(Round round, StoreDoor::OnReached on_reached);
    /// Closes what leads this node's workers to the store of this round, where it is elsewhere.
    void leave(int round);
    /// Its clients read what was sent to them before they see its end.
    void close(std::uint16_t port);
    /// Until nothing listens on the port of a store that was closed: another process is about to.
    void wait_until_closed();

    /// From any thread; `answer` is called on the stores' own.
    void survey(std::function<void(server::StoreSurvey)> answer);

    /// None where every caller may use the stores.
    static std::optional<Members> members_of(const AgentConfig& config);

private:
    /// A store, and what leads to it.
    struct Open {
        std::unique_ptr<server::StoreServer> store = nullptr;
        /// Of members-only stores, until the round begins: its key is not known before.
        std::optional<net::Tcp::acceptor> tunnels = std::nullopt;
        /// Ends before the store does.
        std::unique_ptr<TunnelPort> tunnel_port = nullptr;
    };

    Result<std::uint16_t> open_now();
    Result<std::uint16_t> enter_now(const Round& round, StoreDoor::OnReached on_reached);
    Result<std::uint16_t> enter_here(const Round& round);
    void linger(std::unique_ptr<TunnelPort> port);
    void open_tunnel_port(Open& open, const Round& round);
    void close_door();
    void remove_drained(const server::StoreServer* store);

    boost::asio::io_context& agent_;
    // Everything below belongs to the store thread.
    boost::asio::io_context io_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
    std::string host_;
    PortRange range_;
    wire::Accepted accepted_;
    OnWait on_wait_;
    Random random_;
    bool has_one_node_ = false;
    /// Only of members-only stores.
    std::shared_ptr<const tls::Secrets> secrets_;
    std::map<std::uint16_t, Open> stores_;
    std::vector<Open> draining_;
    /// Of stores that are gone: what is on its way to other nodes still arrives.
    struct Lingering {
        std::unique_ptr<TunnelPort> port;
        boost::asio::steady_timer end;
    };
    std::list<Lingering> lingering_;
    /// Of the current round, where its store is elsewhere.
    std::shared_ptr<StoreDoor> door_;
    int door_round_ = 0;
    /// Of those that are gone.
    std::uint64_t past_requests_ = 0;
    std::thread thread_;
};

}  // namespace ddprun::agent
