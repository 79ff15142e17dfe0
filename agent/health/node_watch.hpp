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

/// One sample of a worker.
struct Look {
    int local_rank = 0;
    Sample sample;
};

/// What the workers of one round on this node do, and since when, from repeated samples
/// (--hang-after). Two samples of a worker give its `Site`; its duration counts from the first
/// sample with the same site. Pure; the agent has one while hang detection is on.
class NodeWatch {
public:
    /// `limit`: a worker that has been in one place for this long is sampled once more.
    NodeWatch(Duration limit, Duration interval, Instant now)
        : limit_(limit),
          interval_(interval),
          look_at_(now + interval) {}

    /// When the workers must be sampled; none: sampling is in progress.
    std::optional<Instant> look_at() const { return look_at_; }
    void on_look_begun(Instant now) {
        look_at_.reset();
        begun_at_ = now;
    }
    /// A worker without a sample is unknown. `progress`: what the workers have reported so far. A
    /// worker that reports a new step counts as moving, whatever its samples show.
    void on_looked(
        std::vector<Look> looks, const std::vector<control::RankProgress>& progress, Instant now);

    /// The sites of `worker_count` workers; those in the list have ended with 0. Workers without
    /// two samples are unknown.
    control::NodeSites sites(int round, int worker_count, const std::vector<int>& ended) const;

private:
    struct Worker {
        Sample last;
        std::optional<std::uint64_t> step;
        Site site;
        /// When the worker was first seen at this site.
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
