// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/net/driver.hpp"
#include "rendezvous/server/control_connection.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::server {

/// The coordinator with sockets: connections become events, effects become frames. Everything
/// about jobs is decided in coordinator/.
///
/// Used on the thread of its `io_context`, but for `interrupt`; connections are handed over by the
/// rendezvous server after sniffing.
class ControlServer {
public:
    struct Hooks {
        /// See RendezvousServer::Options.
        std::function<void()> on_idle;
        /// A connection that did not complete the preamble.
        std::function<void(std::string peer, std::string reason)> on_rejected;
        /// The first assignment of a new round is about to leave.
        std::function<void()> on_round = {};
    };

    ControlServer(
        boost::asio::io_context& io,
        coordinator::Coordinator::Options options,
        Duration handshake_timeout,
        Hooks hooks);

    void adopt(net::Tcp::socket socket, std::string first_bytes);
    /// From any thread. Handled before any message of an agent that is not handled yet: what the
    /// caller's own agent sends next may depend on it.
    void interrupt(int signal, std::string reason);
    /// `on_idle` is called if no job is running and no agent is connected.
    void report_if_idle() const;
    /// Ends every connection once what is queued for it is written, and calls `done` when all have
    /// closed. The coordinator sees nothing of it: to its jobs the server has gone.
    void drain(std::function<void()> done);

    std::vector<coordinator::JobStatus> status(std::size_t first_node) const;
    std::size_t agent_count() const { return connections_.size(); }
    Instant now() const { return driver_.now(); }

private:
    using Machine = coordinator::Coordinator;

    void take_interruption();
    void greeted(ConnectionId id);
    void received(ConnectionId id, control::AgentMessage message);
    void ended(ConnectionId id, bool was_greeted, const std::string& reason);
    void perform(Machine::Effect& effect);
    /// The same message goes to every member of a round: encoded once.
    const ControlConnection::Frame& encoded(const control::ServerMessage& message);
    void settled();
    void end_drain_if_empty();

    /// Calls `on_round` once for each round, before its first assignment leaves.
    void notice_round(const control::ServerMessage& message);
    static void notice_refusal(const control::ServerMessage& message);

    boost::asio::io_context& io_;
    Duration handshake_timeout_;
    Hooks hooks_;
    std::map<ConnectionId, std::shared_ptr<ControlConnection>> connections_;
    std::uint64_t next_connection_ = 1;
    std::optional<control::ServerMessage> encoded_message_;
    ControlConnection::Frame encoded_frame_;
    bool is_idle_ = true;
    /// While the last connections of a drain are ending.
    std::function<void()> drained_;
    int round_ = -1;
    net::Driver<Machine> driver_;
    std::mutex interruption_mutex_;
    std::optional<Machine::Interrupted> interruption_;
};

}  // namespace ddprun::server
