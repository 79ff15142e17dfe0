// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/classify.hpp"
#include "agent/health/sample.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace ddprun::agent::health {

/// One look at a worker.
struct Look {
    int local_rank = 0;
    Sample sample;
};

/// What the workers of one round on this node do, and since when, from repeated looks at them
/// (--hang-after). Two looks at a worker give its `Site`; it is there since the first of the looks
/// that gave the same site. Pure; the agent has one while it looks for hangs.
class NodeWatch {
public:
    /// `limit`: when a worker has been in one place for so long, it is looked at once more.
    NodeWatch(Duration limit, Duration interval, Instant now)
        : limit_(limit),
          interval_(interval),
          look_at_(now + interval) {}

    /// When the workers are to be looked at; none: they are being looked at.
    std::optional<Instant> look_at() const { return look_at_; }
    void on_look_begun(Instant now) {
        look_at_.reset();
        begun_at_ = now;
    }
    /// A worker that is not among them is unknown. `progress`: what the workers have reported so
    /// far. One that reports a step goes on, wherever it was seen.
    void on_looked(
        std::vector<Look> looks, const std::vector<control::RankProgress>& progress, Instant now);

    /// Of `worker_count` workers, of which these have ended with 0. Those that were not looked at
    /// twice are unknown.
    control::NodeSites sites(int round, int worker_count, const std::vector<int>& ended) const;

private:
    struct Worker {
        Sample last;
        std::optional<std::uint64_t> step;
        Site site;
        /// In this site.
        Instant since{};
        bool is_known = false;
    };

    void note(Worker& worker, const Sample& sample, bool has_stepped, Instant now) const;

    Duration limit_;
    Duration interval_;
    std::optional<Instant> look_at_;
    Instant begun_at_{};
    Instant looked_at_{};
    std::map<int, Worker> workers_;
};

}  // namespace ddprun::agent::health
