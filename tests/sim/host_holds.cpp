// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/cluster.hpp"
#include "tests/sim/host.hpp"

#include <string>

/// The part of `Host` in which workers keep their processes, and their state, over the end of a
/// round, as the worker's library does (docs/recovery.md).
namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;

constexpr Duration shortest_hold = 1ms;

}  // namespace

/// It ends its part of the round: in time, too late, or never.
void Host::hold_worker(const agent::WorkerGroup::HoldWorker& order) {
    const int local_rank = order.local_rank;
    const auto found = workers_.find(local_rank);
    if (found == workers_.end() || found->second.is_stuck || world_.any(1, 10) == 1) return;
    const int round = found->second.assignment.round;
    later_by_worker(
        local_rank,
        up_to(manners_.slowest_end, shortest_hold),
        [this, local_rank, round](WorkerProcess& worker) {
            const bool is_stopped = worker.was_signalled || worker.is_stuck;
            if (worker.assignment.round != round || is_stopped || worker.held) return;
            if (worker.link) worker.link->close(Link::client);
            worker.link.reset();
            // Ranks are at most one step apart.
            if (worker.is_training)
                worker.committed =
                    worker.committed.value_or(0) + static_cast<unsigned>(world_.any(0, 1));
            worker.is_training = false;
            worker.save = {};
            worker.held = control::KeptWorker{local_rank, worker.committed, world_.any(1, 4) > 1};
            note(
                "holds rank=" + std::to_string(worker.rank) + " round=" + std::to_string(round) +
                " step=" + (worker.committed ? std::to_string(*worker.committed) : "none") +
                (worker.held->is_clean ? "" : " dirty"));
            cluster_.checkers().on_worker_ended(name_, worker.pid);
            if (is_alive_) agent_.post(Agent::WorkerHeld{round, *worker.held});
        });
}

void Host::keep_worker(const Agent::SpawnWorkers& order, int local_rank) {
    const auto found = workers_.find(local_rank);
    // Its end is on the way to the agent.
    if (found == workers_.end()) return;
    note(
        "keeps rank=" + std::to_string(order.assignment.rank_base + local_rank) +
        " round=" + std::to_string(order.assignment.round));
    agent_.post(Agent::WorkerSpawned{local_rank, found->second.pid});
    agent_.post(Agent::WorkerRecoverable{local_rank, true});
    enter_round(order, local_rank);
}

}  // namespace ddprun::sim
