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

/// What this node still does once its part of the job is reported: performs the steps of a
/// Departure, limits the time of each, and stops the `io_context` at the end. Lives on the agent's
/// thread; the references must outlive it.
class TimedDeparture {
public:
    struct Plan {
        bool is_elected = false;
        /// By then the server has noticed the end of every other agent.
        Duration lease{};
    };

    TimedDeparture(
        boost::asio::io_context& io, Plan plan, RendezvousAccess& rendezvous, KeeperLink& keeper);
    TimedDeparture(const TimedDeparture&) = delete;
    TimedDeparture& operator=(const TimedDeparture&) = delete;

    /// `is_job_over`: decided for every node, not only this one.
    void begin(bool is_job_over);
    /// The hosted server has no agent and no job any more.
    void server_idle() { perform(departure_.server_idle()); }
    /// At once, whatever it still waits for.
    void leave();

    /// Only the server is left of this node's part.
    bool has_begun() const { return departure_.is_finished(); }

private:
    void perform(Departure::Step step);
    void limit(Duration time, std::function<void()> on_limit);

    boost::asio::io_context& io_;
    Plan plan_;
    RendezvousAccess& rendezvous_;
    KeeperLink& keeper_;
    Departure departure_;
    boost::asio::steady_timer timer_;
    bool is_job_over_ = false;
};

}  // namespace ddprun::agent
