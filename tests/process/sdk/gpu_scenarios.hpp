// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"

#include <functional>
#include <map>
#include <string>

namespace ddprun::tests {

/// Scenarios of a rank with a fake GPU by name, mostly with a Reducer. `on_gpu` is its nccl group,
/// `on_cpu` a group of the same ranks on the CPU. Throws when a check fails.
using GpuScenario = std::function<void(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu)>;
using GpuScenarios = std::map<std::string, GpuScenario>;
GpuScenarios gpu_scenarios();
/// Scenarios with failures.
GpuScenarios gpu_failures();
/// Scenarios that use only a group.
GpuScenarios gpu_calls();

}  // namespace ddprun::tests
