// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"

#include <cstddef>
#include <vector>

namespace ddprun {

/// Sums of a training run (loss, correct answers, samples). Each rank adds to its own; `reduce`
/// adds them up over all ranks in one small collective. They are in host memory, on nccl too.
///
///   Metrics metrics(group, 3);
///   each step:            metrics.add(loss, value); metrics.add(samples, batch_size);
///   every hundred steps:  const auto totals = metrics.reduce();
class Metrics {
public:
    /// `count` is the number of sums, numbered from 0, the same on all ranks.
    Metrics(ProcessGroup group, std::size_t count);

    /// Adds on this rank only. Throws UsageError when there is no such metric.
    void add(std::size_t metric, double value);

    /// A collective, and throws like one. Returns the totals over all ranks since the last call,
    /// and resets the sums to zero.
    std::vector<double> reduce();

private:
    ProcessGroup group_;
    std::vector<double> sums_;
};

}  // namespace ddprun
