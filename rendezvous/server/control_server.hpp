// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/net/driver.hpp"
#include "rendezvous/server/caller_lines.hpp"
#include "rendezvous/server/control_connection.hpp"
#include "rendezvous/server/handshakes.hpp"
#include "rendezvous/server/http_status.hpp"
#include "rendezvous/server/server_secrets.hpp"
#include "rendezvous/server/tenant_bounds.hpp"
#include "rendezvous/voters/witness.hpp"

#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::server {

/// Connects the coordinator to sockets: turns connections into events, and effects into frames.
/// Everything about jobs is decided in coordinator/.
///
/// Used on the thread of its `io_context`, except for `interrupt`. The rendezvous server hands over
/// connections after sniffing.
class ControlServer {
public:
    struct Hooks {
        /// See RendezvousServer::Options.
        std::function<void()> on_idle;
        /// A connection did not complete the preamble, or was closed because it held too much.
        std::function<void(std::string peer, std::string reason)> on_rejected;
        /// The first assignment of a new round is about to be sent.
        std::function<void()> on_round = {};
        /// An elected server no longer leads.
        std::function<void(const coordinator::SteppedDown&)> on_stepped_down = {};
        /// A job has ended under an elected server. Answered by `recorded`.
        std::function<void(const coordinator::Record&)> on_record = {};
        /// The job should have other voters. Answered by `voters_changed`.
        std::function<void(const coordinator::ChangeVoters&)> on_change_voters = {};
    };

    ControlServer(
        boost::asio::io_context& io,
        coordinator::Coordinator::Options options,
        Duration handshake_timeout,
        Hooks hooks,
        std::size_t max_held_bytes = limits::max_control_bytes,
        SecretsOrigin secrets = {});

    /// Takes over an unencrypted caller. When there is a secret, it is refused with that reason.
    void adopt(net::Tcp::socket socket, std::string first_bytes);
    /// Requires: there is a secret.
    void adopt_encrypted(net::Tcp::socket socket, std::string first_bytes);
    bool has_secret() const { return secrets_.is_required(); }
    const ServerSecrets& secrets() const { return secrets_; }
    /// May be called from any thread. Handled before all unhandled messages of agents, since the
    /// next message of the caller's own agent may depend on it.
    void interrupt(int signal, std::string reason, std::optional<Duration> grace = std::nullopt);
    /// Passes a decision of the election to the coordinator.
    void lead(coordinator::Coordinator::Led led) {
        if (led.epoch > abandoned_epoch_) post(std::move(led));
    }
    void recorded(std::uint64_t number) { post(Machine::Recorded{number}); }
    void witness_changed(std::optional<control::VoterPlace> witness) {
        post(Machine::WitnessChanged{std::move(witness)});
    }
    void depose(std::string reason) { post(Machine::Deposed{std::move(reason)}); }
    void voters_changed(coordinator::Coordinator::VotersChanged changed) {
        post(std::move(changed));
    }
    /// The leadership for the page of an elected server; none: it does not lead.
    std::optional<coordinator::LeaderStatus> leader() const {
        return driver_->machine().leader(now());
    }
    /// `on_idle` is called if no job is running and no agent is connected.
    void report_if_idle() const;
    /// Ends every connection once its queue is written, and calls `done` when all have closed. The
    /// coordinator is not notified: its jobs are not ended.
    void drain(std::function<void()> done);

    /// Adds a few jobs to a page, as Pages::Source.
    std::uint64_t add_jobs(
        JobPage& page, const coordinator::Scope& scope, std::uint64_t after) const;
    std::size_t agent_count() const { return connections_.size(); }
    /// The memory of all connections: unsent and incomplete messages.
    std::size_t held_bytes() const { return held_bytes_; }
    Instant now() const { return driver_->now(); }

    /// Called after a bad_alloc in the machine, whose step may be half done: closes every
    /// connection and starts again without jobs. The agents come back and report theirs, as after a
    /// restart of the server.
    void start_over();

private:
    using Machine = coordinator::Coordinator;

    void begin();
    void adopt_as(net::Tcp::socket socket, std::string first_bytes, ControlAccess access);
    /// Makes room for one more caller that has not proved the secret; false when there is none.
    bool admit(ConnectionId id, const ControlConnection& connection);
    void post(Machine::Event event);
    void holds(std::size_t before, std::size_t now);
    void keep_within_bound();
    void close_without_memory(ControlConnection& connection);
    void take_interruption();
    void greeted(ConnectionId id);
    void received(ConnectionId id, control::AgentMessage message);
    std::string vote(ConnectionId id, std::string_view request);
    void ended(ConnectionId id, const std::string& reason);
    void perform(Machine::Effect& effect);
    /// The same message goes to every member of a round, so it is encoded once.
    const ControlConnection::Frame& encoded(const control::ServerMessage& message);
    void settled();
    void end_drain_if_empty();

    /// Calls `on_round` once for each round, before its first assignment leaves.
    void notice_round(const control::ServerMessage& message);
    void notice_refusal(const control::ServerMessage& message);
    /// Logs a line about a caller or its job, unless the limit is reached.
    void log_of_caller(
        CallerLines& lines, log::Level level, std::string_view event, log::Fields fields);

    boost::asio::io_context& io_;
    Machine::Options options_;
    Duration handshake_timeout_;
    Hooks hooks_;
    ServerSecrets secrets_;
    Handshakes handshakes_;
    TenantConnections of_tenants_;
    /// None: the server is part of a `ddprun`, which votes at its peer port.
    std::optional<voters::Witness> witness_;
    std::size_t max_held_bytes_;
    std::size_t held_bytes_ = 0;
    std::map<ConnectionId, std::shared_ptr<ControlConnection>> connections_;
    std::uint64_t next_connection_ = 1;
    std::optional<control::ServerMessage> encoded_message_;
    ControlConnection::Frame encoded_frame_;
    bool is_idle_ = true;
    /// The epoch of a leadership that ended because memory ran out: a late confirmation of it has
    /// no effect.
    std::uint64_t abandoned_epoch_ = 0;
    /// New states of jobs have their own limit, so that the lines about thousands of joining nodes
    /// do not displace the line that the job runs.
    CallerLines state_lines_;
    CallerLines other_lines_;
    /// Set while the last connections of a drain are ending.
    std::function<void()> drained_;
    int round_ = -1;
    std::optional<net::Driver<Machine>> driver_;
    std::mutex interruption_mutex_;
    std::optional<Machine::Interrupted> interruption_;
};

}  // namespace ddprun::server
