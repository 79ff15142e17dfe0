// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"

#include <cstddef>
#include <vector>

namespace ddprun {

/// Sums of a training run (loss, correct answers, samples) that each rank adds to, and that
/// `reduce` adds up over the ranks in one small collective. In host memory, on nccl too.
///
///   Metrics metrics(group, 3);
///   each step:            metrics.add(loss, value); metrics.add(samples, batch_size);
///   every hundred steps:  const auto totals = metrics.reduce();
class Metrics {
public:
    /// `count` sums, numbered from 0; the same count on all ranks.
    Metrics(ProcessGroup group, std::size_t count);

    /// On this rank only. Throws UsageError when there is no such metric.
    void add(std::size_t metric, double value);

    /// A collective, and throws like one. Returns what all ranks have added since the last call,
    /// and resets the sums to zero.
    std::vector<double> reduce();

private:
    ProcessGroup group_;
    std::vector<double> sums_;
};

}  // namespace ddprun
