// SPDX-License-Identifier: Apache-2.0
#include "agent/health/node_watch.hpp"

#include "agent/report/printable.hpp"
#include "rendezvous/base/limits.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

namespace ddprun::agent::health {
namespace {

using namespace std::chrono_literals;

/// The longest gap between samples, in sampling intervals. After a longer gap the activity in
/// between is not known: this process did not run, or sampling took very long.
constexpr int longest_gap = 3;
/// Limits each site so that all sites of a node fit into a message's limit of text.
constexpr std::size_t most_detail_bytes = 160;
/// A sample that is due at the limit is taken slightly after it.
constexpr Duration after_limit = 10ms;

bool is_same(const Site& a, const Site& b) {
    return std::tie(a.activity, a.site) == std::tie(b.activity, b.site);
}

/// Whether the beginning of the activity matters: for "moving" and "unknown" it does not.
bool lasts(const Site& site) {
    return site.activity != control::Activity::moving &&
           site.activity != control::Activity::unknown;
}

std::optional<std::uint64_t> step_of(
    const std::vector<control::RankProgress>& progress, int local_rank) {
    for (const auto& rank : progress)
        if (rank.local_rank == local_rank) return rank.progress.step;
    return std::nullopt;
}

}  // namespace

void NodeWatch::on_looked(
    std::vector<Look> looks, const std::vector<control::RankProgress>& progress, Instant now) {
    if (begun_at_ - looked_at_ > longest_gap * interval_) workers_.clear();
    std::erase_if(workers_, [&](const auto& worker) {
        return std::none_of(looks.begin(), looks.end(), [&](const Look& look) {
            return look.local_rank == worker.first;
        });
    });
    auto next = now + interval_;
    for (auto& [local_rank, sample] : looks) {
        auto [found, is_new] = workers_.try_emplace(local_rank);
        auto& worker = found->second;
        const auto step = step_of(progress, local_rank);
        if (!is_new) note(worker, sample, step != worker.step, now);
        worker.last = std::move(sample);
        worker.step = step;
        const auto due = worker.since + limit_ + after_limit;
        if (worker.is_known && lasts(worker.site) && due > now) next = std::min(next, due);
    }
    // Two samples that are too close show no difference, or an exaggerated one.
    next = std::max(next, now + interval_ / 4);
    looked_at_ = now;
    look_at_ = next;
}

void NodeWatch::note(Worker& worker, const Sample& sample, bool has_stepped, Instant now) const {
    auto site = classify(worker.last, sample, now - looked_at_);
    // Without reported steps, one long wait for a GPU looks like a short wait in each step.
    const bool may_step = site.is_spinning && !worker.step;
    if (has_stepped || may_step) site = {control::Activity::moving, "", ""};
    // The process may be only a client: the work is then done in a container or on another host.
    const bool is_opaque = sample.threads.empty() && !worker.step;
    if (is_opaque && site.activity == control::Activity::blocked)
        site.activity = control::Activity::unknown;
    const bool goes_on_there = worker.is_known && lasts(site) && is_same(site, worker.site);
    if (!goes_on_there) worker.since = lasts(site) ? looked_at_ : now;
    worker.site = std::move(site);
    worker.is_known = true;
}

control::NodeSites NodeWatch::sites(
    int round, int worker_count, const std::vector<int>& ended) const {
    control::NodeSites node{round, {}};
    const auto add = [&](control::Site site, int local_rank) {
        const auto found =
            std::find_if(node.sites.begin(), node.sites.end(), [&](const control::Site& known) {
                return std::tie(known.activity, known.place) == std::tie(site.activity, site.place);
            });
        if (found != node.sites.end()) {
            found->age = std::min(found->age, site.age);
            found->local_ranks.push_back(local_rank);
        } else if (node.sites.size() < limits::max_reported_sites) {
            site.local_ranks = {local_rank};
            node.sites.push_back(std::move(site));
        }
    };
    for (int local_rank = 0; local_rank < worker_count; ++local_rank) {
        const auto worker = workers_.find(local_rank);
        if (std::find(ended.begin(), ended.end(), local_rank) != ended.end())
            add({control::Activity::ended, "", "", {}, {}}, local_rank);
        else if (worker == workers_.end() || !worker->second.is_known)
            add({}, local_rank);
        else
            add({worker->second.site.activity,
                 worker->second.site.site,
                 shortened(worker->second.site.detail, most_detail_bytes),
                 looked_at_ - worker->second.since,
                 {}},
                local_rank);
    }
    return node;
}

}  // namespace ddprun::agent::health
