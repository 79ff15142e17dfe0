// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/visible_devices.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace ddprun::agent {
namespace {

bool is_known_device(std::string_view entry, std::string_view first, int gpu_count) {
    // CUDA takes one kind of name in one list.
    if (is_device_uuid(first)) return entry.starts_with(first.substr(0, 4));
    int number = 0;
    const auto* const end = entry.data() + entry.size();
    const auto read = std::from_chars(entry.data(), end, number);
    return read.ec == std::errc{} && read.ptr == end && number >= 0 && number < gpu_count;
}

}  // namespace

std::vector<std::string> visible_devices(std::string_view variable, int gpu_count) {
    if (gpu_count == 0) return {};
    std::vector<std::string> devices;
    const auto entries = split(variable, ',');
    const auto first = trimmed(entries.front());
    for (const auto part : entries) {
        const auto entry = trimmed(part);
        if (!is_known_device(entry, first, gpu_count)) break;
        devices.emplace_back(entry);
    }
    if (names_twice(devices)) return {};
    const bool is_whole_gpus = !first.starts_with("MIG-");
    if (is_whole_gpus && devices.size() > static_cast<std::size_t>(gpu_count))
        devices.resize(static_cast<std::size_t>(gpu_count));
    return devices;
}

bool is_device_uuid(std::string_view entry) {
    return entry.starts_with("GPU-") || entry.starts_with("MIG-");
}

bool names_twice(std::vector<std::string> devices) {
    std::sort(devices.begin(), devices.end());
    return std::adjacent_find(devices.begin(), devices.end()) != devices.end();
}

}  // namespace ddprun::agent
