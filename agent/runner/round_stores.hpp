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

/// Ports for this node's listeners, both ends included; 0 and 0: any free one.
struct PortRange {
    std::uint16_t first = 0;
    std::uint16_t last = 0;
    /// None of these ports, nor the port before one of them, is ever chosen.
    std::vector<std::uint16_t> kept_free = {};

    bool is_allowed(int port) const;
};

/// The ports of --port-range, without those of the endpoints: the job's server may begin to listen
/// there later than this node's other listeners.
PortRange own_ports(const AgentConfig& config);

/// The numeric address on which this node's listeners listen; empty: all addresses. The address of
/// `--local-addr` is used if this machine has it (`own`); otherwise other nodes reach this node
/// through address translation, and all addresses are used. A loopback endpoint is used too,
/// because all nodes of such a job are on this machine.
std::string own_listen_host(
    const AgentConfig& config, const std::vector<std::string>& own = server::interface_addresses());

/// The address under which an elected server is announced: this machine's address on the route to
/// the engine. If that is a loopback address (etcd runs on this machine), another address of this
/// machine (`own`) is used, if there is one.
std::string address_for_others(
    const std::string& on_the_way_to_engine, const std::vector<std::string>& own);

/// Listens on a port of the range, and tries the ports from a random one on. A port whose successor
/// is free too is preferred: programs bind MASTER_PORT+1 for their own purposes.
Result<net::Tcp::acceptor> listen_in_range(
    boost::asio::io_context& io, const std::string& host, PortRange range, Random& random);

/// The worker stores of this node, on their own thread. Each round gets a fresh keyspace on a
/// separate port, so that no worker ever reads data of an earlier round.
///
/// With members-only stores, the assigned port accepts the tunnels of other nodes. This node's
/// workers connect to a port on the loopback address, whichever node has the store
/// (docs/secrets.md). There is no other way to such a store, so `enter` fails if it cannot listen
/// on a port.
class RoundStores {
public:
    using OnOpened = std::function<void(Result<std::uint16_t>)>;

    /// Set for stores that only nodes with the secret may use.
    struct Members {
        tls::SecretSource secret;
        /// The job has only this node: its store listens on the loopback address only.
        bool has_one_node = false;
    };

    /// A round that this node's workers are about to enter.
    struct Round {
        std::string incarnation;
        int round = 0;
        /// The store's endpoint in the assignment.
        Endpoint store;
        bool is_here = false;
    };

    /// Reports long waits in a store (StoreServer::watch_waits).
    using OnWait = std::function<void(std::uint16_t port, control::StoreWait wait)>;

    /// Answers are posted to `agent`.
    RoundStores(
        boost::asio::io_context& agent,
        std::string host,
        PortRange range,
        wire::Accepted accepted,
        OnWait on_wait = {},
        std::optional<Members> members = std::nullopt);
    /// Closes all stores that are open.
    ~RoundStores();
    RoundStores(const RoundStores&) = delete;
    RoundStores& operator=(const RoundStores&) = delete;

    void open(OnOpened on_opened);
    /// Returns the port on 127.0.0.1 where this node's workers reach the round's store; closes the
    /// port of an earlier round. Waits for the stores' thread. If this node has the store,
    /// `on_reached` is called at once, otherwise by StoreDoor. Requires: stores are for members
    /// only.
    Result<std::uint16_t> enter(Round round, StoreDoor::OnReached on_reached);
    /// Closes this node's door to the round's store, if the store is on another node.
    void leave(int round);
    /// Closes the store after its clients have read the answers that are already sent.
    void close(std::uint16_t port);
    /// Waits until closed stores no longer listen: another process is about to listen on such a
    /// port.
    void wait_until_closed();

    /// May be called from any thread; `answer` is called on the stores' thread.
    void survey(std::function<void(server::StoreSurvey)> answer);

    /// None if every caller may use the stores.
    static std::optional<Members> members_of(const AgentConfig& config);

private:
    /// A store, and the listeners that lead to it.
    struct Open {
        std::unique_ptr<server::StoreServer> store = nullptr;
        /// Only for a members-only store before its round begins: until then the round's key is not
        /// known.
        std::optional<net::Tcp::acceptor> tunnels = std::nullopt;
        /// Destroyed before the store.
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
    /// Set only for members-only stores.
    std::shared_ptr<const tls::Secrets> secrets_;
    std::map<std::uint16_t, Open> stores_;
    std::vector<Open> draining_;
    /// Tunnel ports of closed stores, kept so that bytes in flight to other nodes can still arrive.
    struct Lingering {
        std::unique_ptr<TunnelPort> port;
        boost::asio::steady_timer end;
    };
    std::list<Lingering> lingering_;
    /// The door to the current round's store, if that is on another node.
    std::shared_ptr<StoreDoor> door_;
    int door_round_ = 0;
    /// The number of requests to closed stores.
    std::uint64_t past_requests_ = 0;
    std::thread thread_;
};

}  // namespace ddprun::agent
