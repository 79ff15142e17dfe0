// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"

#include <cstddef>
#include <vector>

namespace ddprun {

/// Sums of a training run (loss, correct answers, samples) that all ranks add to, and that are
/// added up over the ranks now and then, in one small collective. The host keeps them, on nccl too.
///
///   Metrics metrics(group, 3);
///   each step:            metrics.add(loss, value); metrics.add(samples, batch_size);
///   every hundred steps:  const auto totals = metrics.reduce();
class Metrics {
public:
    /// `count` sums, numbered from 0; all ranks have as many.
    Metrics(ProcessGroup group, std::size_t count);

    /// Here alone. Throws UsageError when there is no such metric.
    void add(std::size_t metric, double value);

    /// A collective, and throws like one. What all ranks have added since the last time; begins
    /// again at zero.
    std::vector<double> reduce();

private:
    ProcessGroup group_;
    std::vector<double> sums_;
};

}  // namespace ddprun
