// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/time.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::sim {

/// Time and order of everything in a simulated cluster. Time jumps to the next event; simultaneous
/// events happen in the order in which they were scheduled. One seed gives one history.
class World {
public:
    explicit World(std::uint64_t seed) : random_(seed) {}
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    Instant now() const { return now_; }
    Random& random() { return random_; }
    /// Whole numbers from `low` to `high`.
    int any(int low, int high) { return std::uniform_int_distribution<int>{low, high}(random_); }

    void after(Duration delay, std::function<void()> action) {
        at(now_ + delay, std::move(action));
    }
    void at(Instant moment, std::function<void()> action);
    /// Performs the next event. Returns false when there is none.
    bool step();
    /// The time of the next event.
    std::optional<Instant> next() const;
    void advance_to(Instant moment);

    /// Adds a line to the record, with the time in front.
    void note(const std::string& line);
    std::vector<std::string> take_record() { return std::exchange(record_, {}); }
    /// The last lines, for the message of a failure.
    std::string tail(std::size_t count) const;

private:
    Random random_;
    Instant now_{};
    std::uint64_t next_number_ = 0;
    std::map<std::pair<Instant, std::uint64_t>, std::function<void()>> actions_;
    std::vector<std::string> record_;
};

/// Like net::Driver in real programs: passes events to a machine, performs its effects, and calls
/// it at its deadlines.
template <Machine M>
class Driven {
public:
    using Perform = std::function<void(typename M::Effect&)>;

    Driven(World& world, M machine, Perform perform)
        : world_(world),
          machine_(std::move(machine)),
          perform_(std::move(perform)) {}
    Driven(const Driven&) = delete;
    Driven& operator=(const Driven&) = delete;

    const M& machine() const { return machine_; }
    /// Makes it do nothing from now on, like a process that was killed.
    void freeze() { is_frozen_ = true; }
    /// Stops it like a process: events wait until it continues.
    void pause() { is_paused_ = true; }
    /// Continues it. It handles deadlines and events in either order.
    void resume() {
        if (!is_paused_) return;
        is_paused_ = false;
        armed_for_.reset();
        if (world_.any(0, 1) == 0) inbox_.insert(inbox_.begin(), typename M::DeadlinePassed{});
        work();
    }

    void post(typename M::Event event) {
        inbox_.push_back(std::move(event));
        work();
    }

private:
    void work() {
        if (is_draining_ || is_paused_) return;
        is_draining_ = true;
        while (!inbox_.empty() && !is_frozen_ && !is_paused_) {
            auto next = std::move(inbox_.front());
            inbox_.erase(inbox_.begin());
            std::vector<typename M::Effect> effects;
            machine_.handle(std::move(next), world_.now(), effects);
            for (auto& effect : effects)
                perform_(effect);
        }
        is_draining_ = false;
        rearm();
    }

    void rearm() {
        const auto deadline = machine_.next_deadline();
        if (deadline == armed_for_) return;
        armed_for_ = deadline;
        if (!deadline) return;
        world_.at(
            std::max(*deadline, world_.now()), [this, deadline, alive = std::weak_ptr{life_}] {
                if (alive.expired() || is_frozen_ || is_paused_ || armed_for_ != deadline) return;
                armed_for_.reset();
                post(typename M::DeadlinePassed{});
            });
    }

    World& world_;
    M machine_;
    Perform perform_;
    std::optional<Instant> armed_for_;
    std::vector<typename M::Event> inbox_;
    bool is_draining_ = false;
    bool is_frozen_ = false;
    bool is_paused_ = false;
    std::shared_ptr<int> life_ = std::make_shared<int>(0);
};

}  // namespace ddprun::sim
