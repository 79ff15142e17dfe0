// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/timed_departure.hpp"

#include "agent/keeper/keeper_link.hpp"
#include "agent/runner/rendezvous_access.hpp"
#include "rendezvous/base/limits.hpp"

#include <utility>

namespace ddprun::agent {

TimedDeparture::TimedDeparture(
    boost::asio::io_context& io, Plan plan, RendezvousAccess& rendezvous, KeeperLink& keeper)
    : io_(io),
      plan_(plan),
      rendezvous_(rendezvous),
      keeper_(keeper),
      departure_(plan.is_elected),
      timer_(io),
      watch_(io) {}

void TimedDeparture::begin(bool is_job_over) {
    // Others may still need the server for the result of an interruption.
    is_job_over_ = is_job_over || rendezvous_.is_interrupted();
    perform(departure_.finished(
        {rendezvous_.is_hosting(),
         is_job_over_,
         rendezvous_.is_needed_as_voter(),
         rendezvous_.is_successor()}));
}

void TimedDeparture::perform(Departure::Step step) {
    switch (step) {
        case Departure::Step::none: return;
        case Departure::Step::wait_for_nodes:
            // If this agent ended before it joined, the server may never have had a job.
            rendezvous_.ask_if_server_is_idle();
            return limit(
                plan_.lease + limits::drain_margin, [this] { perform(departure_.waited()); });
        case Departure::Step::wait_for_release:
            watch_leader();
            return limit(
                plan_.lease + limits::drain_margin, [this] { perform(departure_.waited()); });
        case Departure::Step::release_server:
            rendezvous_.release(is_job_over_);
            return limit(limits::etcd_answer_timeout, [this] { leave(); });
        case Departure::Step::leave: return leave();
    }
}

/// If the leader is lost, nodes that do not vote can find no other one than one of the voters.
void TimedDeparture::watch_leader() {
    watch_.expires_after(leader_watch_interval);
    watch_.async_wait([this](const boost::system::error_code& ec) {
        if (ec || !departure_.waits_for_release()) return;
        rendezvous_.replace_lost_leader();
        watch_leader();
    });
}

void TimedDeparture::limit(Duration time, std::function<void()> on_limit) {
    timer_.expires_after(time);
    timer_.async_wait([on_limit = std::move(on_limit)](const boost::system::error_code& ec) {
        if (!ec) on_limit();
    });
}

void TimedDeparture::leave() {
    keeper_.remove_error_files();
    io_.stop();
}

}  // namespace ddprun::agent
