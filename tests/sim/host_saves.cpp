// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/cluster.hpp"
#include "tests/sim/host.hpp"

#include <utility>

/// The part of `Host` in which workers take steps and ask in each step whether they must save, as
/// the worker's library does (agent/channel/FORMAT.md).
namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;

constexpr Duration poll_interval = 1ms;
constexpr Duration save_time = 50ms;

}  // namespace

void Host::take_step(int local_rank) {
    if (manners_.step == Duration{}) return;
    const auto length = up_to(manners_.step * 3 / 2, manners_.step / 2);
    const int round = workers_.at(local_rank).assignment.round;
    later_by_worker(local_rank, length, [this, local_rank, round](WorkerProcess& worker) {
        if (worker.held || worker.assignment.round != round) return;
        worker.save.asked = worker.step++;
        ask_whether_to_save(local_rank);
    });
}

void Host::ask_whether_to_save(int local_rank) {
    auto& worker = workers_.at(local_rank);
    auto& own = worker.save;
    const bool is_turn = save_ && save_->state != control::SaveState::cancelled &&
                         *own.asked >= save_->step && own.ballot != save_->ballot;
    if (!is_turn) return take_step(local_rank);
    if (save_->state == control::SaveState::agreed) {
        own.answer = agent::RankSave::Answer::saving;
        own.ballot = save_->ballot;
        own.step = *own.asked;
        world_.note(worker_name(local_rank) + " saves step " + std::to_string(own.step));
        return later_by_worker(local_rank, save_time, [this, local_rank](WorkerProcess& saved) {
            saved.save.answer = agent::RankSave::Answer::saved;
            cluster_.checkers().on_saved(
                {run_id_, incarnation_, saved.assignment.round, saved.rank, saved.save.step});
            show_saves();
            take_step(local_rank);
        });
    }
    if (world_.now() < save_wait_ends_at_)
        return later_by_worker(local_rank, poll_interval, [this, local_rank](WorkerProcess&) {
            ask_whether_to_save(local_rank);
        });
    own.answer = agent::RankSave::Answer::declined;
    own.ballot = save_->ballot;
    show_saves();
    take_step(local_rank);
}

std::vector<agent::RankSave> Host::saves() const {
    std::vector<agent::RankSave> saves;
    for (const auto& [local_rank, worker] : workers_)
        if (worker.save.asked) {
            saves.push_back(worker.save);
            saves.back().local_rank = local_rank;
        }
    return saves;
}

void Host::show_saves() {
    if (is_alive_ && !workers_.empty())
        agent_.post(Agent::SavesRead{workers_.begin()->second.assignment.round, saves()});
}

void Host::show_save(const Agent::ShowSave& order) {
    if (order.round == spawning_round_) {
        save_ = order.save;
        save_wait_ends_at_ = order.wait_ends_at;
    }
    agent_.post(Agent::SaveShown{order.round, order.save.ballot, saves()});
}

}  // namespace ddprun::sim
