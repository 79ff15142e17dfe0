// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/departure.hpp"
#include "rendezvous/base/time.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>

namespace ddprun::agent {

class KeeperLink;        // keeper/keeper_link.hpp
class RendezvousAccess;  // rendezvous_access.hpp

/// Performs the steps of a Departure once this node has reported its part of the job. Limits the
/// time of each step, and stops the `io_context` at the end. Lives on the agent's thread; the
/// references must outlive it.
class TimedDeparture {
public:
    struct Plan {
        bool is_elected = false;
        /// Within this time the server notices the end of every other agent.
        Duration lease{};
    };

    TimedDeparture(
        boost::asio::io_context& io, Plan plan, RendezvousAccess& rendezvous, KeeperLink& keeper);
    TimedDeparture(const TimedDeparture&) = delete;
    TimedDeparture& operator=(const TimedDeparture&) = delete;

    /// `is_job_over`: the job's end is decided for every node, not only for this one.
    void begin(bool is_job_over);
    /// The hosted server has no agent and no job left.
    void server_idle() { perform(departure_.server_idle()); }
    /// The leader has stepped down after the end of the job.
    void released() { perform(departure_.released()); }
    /// This node's server leads.
    void elected() { perform(departure_.elected()); }
    /// Requires: `has_begun()`.
    void signalled(int signal) { perform(departure_.signalled(signal)); }
    /// Leaves at once, without any further wait.
    void leave();

    /// This node's part is over except for its server.
    bool has_begun() const { return departure_.is_finished(); }

private:
    void perform(Departure::Step step);
    void watch_leader();
    void limit(Duration time, std::function<void()> on_limit);

    boost::asio::io_context& io_;
    Plan plan_;
    RendezvousAccess& rendezvous_;
    KeeperLink& keeper_;
    Departure departure_;
    boost::asio::steady_timer timer_;
    boost::asio::steady_timer watch_;
    bool is_job_over_ = false;
};

}  // namespace ddprun::agent
