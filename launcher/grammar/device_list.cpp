// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/device_list.hpp"

#include "agent/plan/topology.hpp"
#include "launcher/grammar/number.hpp"
#include "rendezvous/base/text.hpp"

#include <cerrno>
#include <optional>

namespace ddprun::launcher {
namespace {

/// More than any machine has; it limits the list that a range can make.
constexpr int most_devices = 1024;

struct DeviceRange {
    int first = 0;
    int last = 0;
};

std::optional<DeviceRange> parse_device_range(std::string_view entry) {
    const auto dash = entry.find('-');
    const auto first = parse_int(entry.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_int(entry.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= most_devices)
        return std::nullopt;
    return DeviceRange{*first, *last};
}

}  // namespace

Result<std::vector<std::string>> parse_devices(std::string_view text, int gpu_count) {
    const auto refuse = [&](const std::string& why) {
        return Failure{
            system_code(EINVAL),
            "'" + std::string{text} + "': " + why +
                "accepted are numbers and ranges like 0,2,4-7, and UUIDs (GPU-..., MIG-...)"};
    };
    std::vector<std::string> devices;
    for (const auto part : split(text, ',')) {
        const auto entry = trimmed(part);
        if (agent::is_device_uuid(entry)) {
            devices.emplace_back(entry);
            continue;
        }
        const auto range = parse_device_range(entry);
        if (!range) return refuse("'" + std::string{entry} + "' is no device; ");
        if (gpu_count > 0 && range->last >= gpu_count)
            return refuse(
                "this machine has " + std::to_string(gpu_count) + " GPUs, 0 to " +
                std::to_string(gpu_count - 1) + "; ");
        for (int number = range->first; number <= range->last; ++number)
            devices.push_back(std::to_string(number));
    }
    if (agent::names_twice(devices)) return refuse("a device is named twice; ");
    return devices;
}

std::string device_list(const std::vector<std::string>& devices) {
    std::string text;
    for (const auto& device : devices)
        text += (text.empty() ? "" : ",") + device;
    return text;
}

}  // namespace ddprun::launcher
