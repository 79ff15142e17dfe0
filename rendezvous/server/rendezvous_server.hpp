// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/coordinator/effects.hpp"
#include "rendezvous/coordinator/leadership.hpp"
#include "rendezvous/server/placement.hpp"
#include "rendezvous/server/server_secrets.hpp"
#include "rendezvous/server/store_survey.hpp"
#include "rendezvous/wire/query.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::server {

/// Runs the rendezvous server on a separate thread: accepts connections, detects the protocol of
/// each, and passes it to the coordinator, the status pages or the shared c10d store (which has a
/// second thread, started by its first connection).
///
/// Owned by the daemon or by a hosting agent, whose thread makes all calls. The two threads share
/// nothing but an interruption that has not been handled yet: every other call is posted to the
/// server's thread.
class RendezvousServer {
public:
    struct Options {
        ListenOn listen;
        /// Inside a `ddprun`: serves this run id only and is reported to agents as `hosted`.
        std::optional<std::string> hosted_run_id = std::nullopt;
        /// The server acts only while it leads (`lead`).
        bool is_elected = false;
        /// An elected server no longer leads. Called on the server's thread.
        std::function<void(const coordinator::SteppedDown&)> on_stepped_down = {};
        /// A job has ended under an elected server. Called on the server's thread, and answered by
        /// `recorded`.
        std::function<void(const coordinator::Record&)> on_record = {};
        /// This process as a voter, where the nodes of the job vote about its leader; none: they do
        /// not.
        std::optional<control::VoterPlace> voter = std::nullopt;
        /// The job should have other voters. Called on the server's thread, and answered by
        /// `voters_changed`.
        std::function<void(const coordinator::ChangeVoters&)> on_change_voters = {};
        /// The shared c10d store is emptied at each new round of the job, because with static
        /// rendezvous it is the workers' store. Otherwise it serves every client and keeps its
        /// content.
        bool has_store_of_round = false;
        /// Shown in /status.
        std::string version = {};
        /// Every job has ended and every agent has closed. Called on the server's thread, at each
        /// change from busy to idle; a server without any connection yet is not reported.
        std::function<void()> on_idle = {};
        /// How long a caller may take to send its preamble, and how long an agent may then take to
        /// join.
        Duration handshake_timeout = limits::handshake_timeout;
        /// With a secret: the bound of UnprovedCallers.
        std::size_t most_unproved_callers = limits::max_unproved_callers;
        /// Reports long waits in the round's store (StoreServer::watch_waits), on that store's
        /// thread.
        std::function<void(control::StoreWait)> on_store_wait = {};
        /// Stores that the owner serves beside this server, for the status page. Must outlive it.
        AskStores ask_stores = {};
        /// Sockets that already listen (activation.hpp); they replace `listen` and determine the
        /// port.
        std::vector<int> inherited = {};
        /// How long callers may take to read to the end when this server drains.
        Duration drain_timeout = limits::drain_timeout;
        /// Which clients the shared c10d store accepts.
        wire::Accepted accepted = wire::Accepted::current;
        /// A secret that agents must prove, or one for each tenant. With it, a shared store that is
        /// not a round's store is closed.
        SecretsOrigin secrets = {};
    };

    explicit RendezvousServer(Options options);
    /// Calls `stop`.
    ~RendezvousServer();
    RendezvousServer(const RendezvousServer&) = delete;
    RendezvousServer& operator=(const RendezvousServer&) = delete;

    /// Listens and starts the thread; returns the port. A port in use is a failure with the code
    /// boost::asio::error::address_in_use (net::listener_on_port may name the holder). Requires:
    /// called once.
    Result<std::uint16_t> start();

    /// The hosting `ddprun` was interrupted: ends every job on every node. The server continues
    /// until its agents have closed (`on_idle`). `grace` as in `coordinator::JobInterrupted`.
    void interrupt(int signal, std::string reason, std::optional<Duration> grace = std::nullopt);

    /// This server was elected, or confirmed.
    void lead(coordinator::Led led);
    /// The election has stored the end that `on_record` reported.
    void recorded(std::uint64_t number);
    /// Makes the server forget its jobs and close every connection (`on_stepped_down`), if it
    /// leads.
    void depose(std::string reason);
    /// These nodes vote about the leader of the job.
    void voters_changed(std::string run_id, control::Voters voters);
    /// A process that is no part of the hosted job can vote about its leader too, where nodes alone
    /// are one too few; none: it does not answer.
    void witness_changed(std::optional<control::VoterPlace> witness);

    /// `on_idle` reports only changes. This requests another call if there is no job now, perhaps
    /// because there never was one.
    void report_if_idle();

    /// Stops accepting, lets every caller read what was written to it and the end of its stream,
    /// for at most `drain_timeout`, then stops. To agents this looks like a server that has failed:
    /// the jobs are not ended. Harmless when repeated.
    void drain();

    /// Like `drain`, but closes every connection now: a caller may see a reset instead of the end.
    void stop();

private:
    class Core;
    std::unique_ptr<Core> core_;
};

}  // namespace ddprun::server
