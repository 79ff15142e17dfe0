// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Which GPUs the workers of a node may use, as lists of names: numbers, or UUIDs ("GPU-...",
/// "MIG-...").
namespace ddprun::launcher {

/// What CUDA would make of a CUDA_VISIBLE_DEVICES on a machine with `gpu_count` GPUs: the list ends
/// before the first entry that it does not know; an entry given twice makes it empty. UUIDs are
/// taken for known. MIG devices are parts of a GPU, so there may be more of them.
std::vector<std::string> visible_devices(std::string_view variable, int gpu_count);

/// Reads `--devices`: "0,2,4-7", UUIDs too; each once. On error the context is what was given and
/// what is accepted. `gpu_count` of 0: unknown, every number is taken.
Result<std::vector<std::string>> parse_devices(std::string_view text, int gpu_count);

/// As CUDA_VISIBLE_DEVICES has it: "0,2,4".
std::string device_list(const std::vector<std::string>& devices);

}  // namespace ddprun::launcher
