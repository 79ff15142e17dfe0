// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// Reads `--devices`: "0,2,4-7", UUIDs too; each once. On error the context is what was given and
/// what is accepted. `gpu_count` of 0: unknown, every number is taken.
Result<std::vector<std::string>> parse_devices(std::string_view text, int gpu_count);

/// The list in the form of CUDA_VISIBLE_DEVICES: "0,2,4".
std::string device_list(const std::vector<std::string>& devices);

}  // namespace ddprun::launcher
