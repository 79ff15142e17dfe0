// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::server {

/// Decides when the waits of a store are reported to the node that serves it. A plain value; the
/// store's shell passes it the longest wait at regular intervals.
class WaitWatch {
public:
    struct Limits {
        Duration long_wait = limits::long_wait;
        Duration check_interval = limits::wait_check_interval;
        Duration report_interval = limits::wait_report_interval;
        Duration shortest_timed_out = limits::shortest_timed_out_wait;
    };
    struct Longest {
        std::string key;
        Instant since;
    };
    enum class Step : std::uint8_t {
        none,
        report,
        /// A wait was reported, and no client waits for long any more.
        report_end,
    };

    explicit WaitWatch(Limits limits) : limits_(limits) {}

    /// `longest` is the longest wait now. It is reported when it becomes long, again while it
    /// lasts, and when the longest wait is for another key.
    Step look(const std::optional<Longest>& longest, Instant now);
    /// A client cancels a wait of this age. Returns whether to report that: of several waits that
    /// time out together only the first is reported; the others still exist then, and are counted.
    bool cancelled(Duration age, Instant now);

    const Limits& limits() const { return limits_; }

private:
    struct Reported {
        std::string key;
        Instant at;
    };

    Limits limits_;
    std::optional<Reported> reported_;
    std::optional<Instant> timeout_reported_at_;
};

}  // namespace ddprun::server
