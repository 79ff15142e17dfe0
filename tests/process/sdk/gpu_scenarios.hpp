// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"

#include <functional>
#include <map>
#include <string>

namespace ddprun::tests {

/// What a rank with a fake GPU does, mostly with a Reducer, by name. `on_gpu` is its nccl group,
/// `on_cpu` a group of the same ranks on the CPU. What is not as expected is thrown.
using GpuScenario = std::function<void(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu)>;
using GpuScenarios = std::map<std::string, GpuScenario>;
GpuScenarios gpu_scenarios();
/// Those in which something goes wrong.
GpuScenarios gpu_failures();
/// Those of a group alone.
GpuScenarios gpu_calls();

}  // namespace ddprun::tests
