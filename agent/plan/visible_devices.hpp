// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

/// The names of GPUs: numbers, or UUIDs ("GPU-...", "MIG-...").
namespace ddprun::agent {

/// What CUDA would make of a CUDA_VISIBLE_DEVICES on a machine with `gpu_count` GPUs: the list ends
/// before the first entry that it does not know; an entry given twice makes it empty. UUIDs are
/// taken for known. MIG devices are parts of a GPU, so there may be more of them.
std::vector<std::string> visible_devices(std::string_view variable, int gpu_count);

bool is_device_uuid(std::string_view entry);
bool names_twice(std::vector<std::string> devices);

}  // namespace ddprun::agent
