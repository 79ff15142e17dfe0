// SPDX-License-Identifier: Apache-2.0
#include "ddprun/metrics.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/reduce/host_values.hpp"

#include <string>
#include <utility>

namespace ddprun {

Metrics::Metrics(ProcessGroup group, std::size_t count) : group_(std::move(group)), sums_(count) {}

void Metrics::add(std::size_t metric, double value) {
    if (metric >= sums_.size())
        throw UsageError(
            "metric " + std::to_string(metric) + ": there are " + std::to_string(sums_.size()));
    sums_[metric] += value;
}

std::vector<double> Metrics::reduce() {
    auto totals = std::exchange(sums_, std::vector<double>(sums_.size()));
    reduce::all_reduce_on_host(group_, totals.data(), totals.size(), Op::sum);
    return totals;
}

}  // namespace ddprun
