// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/topology.hpp"

#include "agent/plan/visible_devices.hpp"

#include <algorithm>
#include <charconv>

namespace ddprun::agent {
namespace {

/// "MIG-GPU-<uuid>/1/0", the older way to name a MIG device, names its GPU.
std::string_view gpu_of(std::string_view device) {
    constexpr std::string_view mig = "MIG-";
    if (device.starts_with("MIG-GPU-")) device = device.substr(mig.size());
    return device.substr(0, device.find('/'));
}

const Gpu* gpu_named(const std::vector<Gpu>& all, std::string_view device) {
    std::size_t index = 0;
    const auto* const end = device.data() + device.size();
    const auto read = std::from_chars(device.data(), end, index);
    if (read.ec == std::errc{} && read.ptr == end)
        return index < all.size() ? &all[index] : nullptr;
    // A UUID may be shortened while it names one.
    const auto uuid = gpu_of(device);
    const auto has_uuid = [&](const Gpu& gpu) {
        return !uuid.empty() && gpu.uuid.starts_with(uuid);
    };
    const auto found = std::find_if(all.begin(), all.end(), has_uuid);
    return found == all.end() ? nullptr : &*found;
}

}  // namespace

std::optional<std::vector<Gpu>> visible_gpus(
    const std::vector<Gpu>& all, const std::optional<std::string>& variable) {
    if (!variable) return all;
    std::vector<Gpu> visible;
    for (const auto& device : visible_devices(*variable, static_cast<int>(all.size()))) {
        if (device.starts_with("MIG-") && !device.starts_with("MIG-GPU-")) return std::nullopt;
        const auto* gpu = gpu_named(all, device);
        if (gpu == nullptr) break;  // the driver, too, ignores it and what comes after it
        visible.push_back(*gpu);
    }
    return visible;
}

}  // namespace ddprun::agent
