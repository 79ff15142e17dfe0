// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/clock.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/machine.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::net {

/// Runs a machine on real time: takes events, hands each effect to `perform` in order, and keeps
/// one timer on the machine's next deadline.
///
/// `perform` may `post` further events; they wait until the current effects are done, so a machine
/// is never re-entered. All calls belong to the thread of the `io_context`; another thread posts
/// through `boost::asio::post`. The machine's text functions `describe(const Event&)` and
/// `describe(const Effect&)` (found by argument-dependent lookup) write the trace.
template <Machine M>
class Driver {
public:
    using Event = typename M::Event;
    using Effect = typename M::Effect;
    using Perform = std::function<void(Effect&)>;
    using Settled = std::function<void()>;

    /// `name` heads the trace lines. `perform` is kept; what it captures must outlive the driver.
    /// `settled`, if any, is called whenever the inbox is empty again; it may query the machine and
    /// post events.
    Driver(
        boost::asio::io_context& io,
        std::string name,
        M machine,
        Perform perform,
        Settled settled = {})
        : name_(std::move(name)),
          machine_(std::move(machine)),
          perform_(std::move(perform)),
          settled_(std::move(settled)),
          timer_(io) {}

    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;

    const M& machine() const { return machine_; }
    /// The time at which this driver runs its machine, for queries of the machine.
    Instant now() const { return Clock::now(); }

    void post(Event&& event) {
        // The event is queued while another one is being handled, or behind events whose handling
        // has failed for lack of memory.
        if (is_draining_ || !inbox_.empty()) {
            inbox_.push_back(std::move(event));
            if (!is_draining_) drain(nullptr);
            return;
        }
        drain(&event);
    }

    /// Events that are posted from here on count as simultaneous: they get the same time, and the
    /// timer and `settled` follow in `end_batch`. Reading the clock costs more than a small event.
    /// Requires: `end_batch` is called before the caller returns to the `io_context`, even after an
    /// exception.
    void begin_batch() { batch_time_ = Clock::now(); }
    void end_batch() {
        batch_time_.reset();
        settle();
    }

private:
    struct EndDraining {
        void operator()(bool* is_draining) const { *is_draining = false; }
    };

    void drain(Event* first) {
        is_draining_ = true;
        {
            const auto end = std::unique_ptr<bool, EndDraining>(&is_draining_);
            if (first != nullptr) handle(*first);
            while (!inbox_.empty()) {
                auto event = std::move(inbox_.front());
                inbox_.pop_front();
                handle(event);
            }
        }
        if (!batch_time_) settle();
    }

    void settle() {
        rearm();
        if (settled_) settled_();
    }

    void handle(Event& event) {
        if (log::is_enabled(log::Level::trace))
            log::trace(name_ + ".event", {{"is", describe(event)}});
        effects_.clear();
        machine_.handle(std::move(event), batch_time_ ? *batch_time_ : Clock::now(), effects_);
        for (auto& effect : effects_) {
            if (log::is_enabled(log::Level::debug))
                log::debug(name_ + ".effect", {{"is", describe(effect)}});
            perform_(effect);
        }
    }

    void rearm() {
        const auto deadline = machine_.next_deadline();
        if (deadline == armed_for_) return;
        armed_for_ = deadline;
        timer_.cancel();
        if (!deadline) return;
        timer_.expires_after(*deadline - Clock::now());
        timer_.async_wait(
            [this, alive = std::weak_ptr{alive_}](const boost::system::error_code& ec) {
                if (ec || alive.expired()) return;
                armed_for_.reset();
                post(typename M::DeadlinePassed{});
            });
    }

    std::string name_;
    M machine_;
    Perform perform_;
    Settled settled_;
    boost::asio::steady_timer timer_;
    std::optional<Instant> armed_for_;
    std::deque<Event> inbox_;
    std::vector<Effect> effects_;
    bool is_draining_ = false;
    /// Set within a batch.
    std::optional<Instant> batch_time_;
    /// Expires with the driver: a timer that has fired cannot be cancelled, so its handler checks
    /// this.
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace ddprun::net
