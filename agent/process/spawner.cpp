// SPDX-License-Identifier: Apache-2.0
#include "agent/process/spawner.hpp"

#include "agent/process/hand_over.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <memory>
#include <utility>

namespace ddprun::agent {
namespace {

Result<pid_t> start_or_hand_over(const SpawnSpec& spec) {
    if (spec.parked && hand_over(spec)) return spec.parked->pid;
    return spawn(spec);
}

}  // namespace

Spawner::Spawner(boost::asio::io_context& agent)
    : agent_(agent),
      work_(boost::asio::make_work_guard(queue_)),
      thread_([this] { queue_.run(); }) {}

Spawner::~Spawner() {
    is_ending_ = true;
    queue_.stop();
    thread_.join();
}

void Spawner::start(
    std::vector<SpawnSpec> batch, OnSpawned on_spawned, std::function<void()> before_first) {
    boost::asio::post(
        queue_,
        [this,
         epoch = epoch_.load(),
         specs = std::move(batch),
         callback = std::make_shared<const OnSpawned>(std::move(on_spawned)),
         before = std::move(before_first)] {
            before();
            start_each(specs, callback, epoch);
        });
}

void Spawner::cancel() {
    ++epoch_;
}

void Spawner::start_each(
    const std::vector<SpawnSpec>& batch,
    const std::shared_ptr<const OnSpawned>& on_spawned,
    std::uint64_t epoch) {
    int index = 0;
    for (const auto& spec : batch) {
        if (is_ending_) return;
        auto pid = epoch == epoch_
                       ? start_or_hand_over(spec)
                       : Result<pid_t>{Failure{
                             boost::asio::error::operation_aborted, "start " + spec.program}};
        boost::asio::post(agent_, [on_spawned, outcome = Outcome{index++, std::move(pid)}] {
            (*on_spawned)(outcome);
        });
    }
}

}  // namespace ddprun::agent
