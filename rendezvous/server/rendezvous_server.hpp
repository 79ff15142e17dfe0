// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/server/hosting.hpp"
#include "rendezvous/server/store_survey.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::server {

/// The rendezvous server on a thread of its own: accepts, sniffs, and hands each connection to the
/// coordinator, the status pages or the shared c10d store (which has a second thread, started by
/// its first connection).
///
/// Owned by the daemon or by a hosting agent, whose thread makes all calls. The two share nothing
/// but an interruption that has not been taken yet: every call is posted to the server's thread.
class RendezvousServer {
public:
    struct Options {
        ListenOn listen;
        /// Inside a `ddprun`: serves this run id only and is told to agents as `hosted`.
        std::optional<std::string> hosted_run_id = std::nullopt;
        /// The shared c10d store is empty again at each new round of the job: with static
        /// rendezvous it is the workers' store. Else it is for whoever comes, and lives on.
        bool has_store_of_round = false;
        /// Told to agents and shown in /status.
        std::string name = {};
        std::string version = {};
        /// Every job has ended and every agent has closed. Called on the server's thread, at each
        /// change from busy to idle; a server that nobody has called yet is not reported.
        std::function<void()> on_idle = {};
        /// How long a caller may take to say who it is, and an agent then to join.
        Duration handshake_timeout = limits::handshake_timeout;
        /// Stores that the owner serves beside this server, for the status page. Must outlive it.
        AskStores ask_stores = {};
    };

    explicit RendezvousServer(Options options);
    /// Stops.
    ~RendezvousServer();
    RendezvousServer(const RendezvousServer&) = delete;
    RendezvousServer& operator=(const RendezvousServer&) = delete;

    /// Listens and starts the thread; returns the port. A port in use is a failure with the code
    /// boost::asio::error::address_in_use (net::who_listens_on may know by whom). Requires: called
    /// once.
    Result<std::uint16_t> start();

    /// The hosting `ddprun` was told to stop: ends every job for everybody. The server goes on
    /// until its agents have closed (`on_idle`).
    void interrupt(int signal, std::string reason);

    /// `on_idle` tells of a change only. This asks for it once more: it is called again if no job
    /// is there now, perhaps because none ever was.
    void tell_if_idle();

    /// Closes every connection without a word and waits for the threads. Agents take it for a
    /// server that went away: the jobs are not ended. Harmless when repeated.
    void stop();

private:
    class Core;
    std::unique_ptr<Core> core_;
};

}  // namespace ddprun::server
