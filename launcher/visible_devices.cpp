// SPDX-License-Identifier: Apache-2.0
#include "launcher/visible_devices.hpp"

#include "launcher/number.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>

namespace ddprun::launcher {
namespace {

/// More than any machine has; a range must not make a list without end.
constexpr int most_devices = 1024;

bool is_device_uuid(std::string_view entry) {
    return entry.starts_with("GPU-") || entry.starts_with("MIG-");
}

bool is_known_device(std::string_view entry, std::string_view first, int gpu_count) {
    // CUDA takes one kind of name in one list.
    if (is_device_uuid(first)) return entry.starts_with(first.substr(0, 4));
    const auto number = parse_int(entry);
    return number && *number >= 0 && *number < gpu_count;
}

std::vector<std::string_view> device_entries(std::string_view list) {
    auto entries = split(list, ',');
    for (auto& entry : entries)
        entry = trimmed(entry);
    return entries;
}

template <class T>
bool names_twice(std::vector<T> entries) {
    std::sort(entries.begin(), entries.end());
    return std::adjacent_find(entries.begin(), entries.end()) != entries.end();
}

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

std::vector<std::string> visible_devices(std::string_view variable, int gpu_count) {
    if (gpu_count == 0) return {};
    std::vector<std::string> devices;
    const auto entries = device_entries(variable);
    for (const auto entry : entries) {
        if (!is_known_device(entry, entries.front(), gpu_count)) break;
        devices.emplace_back(entry);
    }
    if (names_twice(devices)) return {};
    const bool is_whole_gpus = !entries.front().starts_with("MIG-");
    if (is_whole_gpus && devices.size() > static_cast<std::size_t>(gpu_count))
        devices.resize(static_cast<std::size_t>(gpu_count));
    return devices;
}

Result<std::vector<std::string>> parse_devices(std::string_view text, int gpu_count) {
    const auto refuse = [&](const std::string& why) {
        return Failure{
            system_code(EINVAL),
            "'" + std::string{text} + "': " + why +
                "accepted are numbers and ranges like 0,2,4-7, and UUIDs (GPU-..., MIG-...)"};
    };
    std::vector<std::string> devices;
    for (const auto entry : device_entries(text)) {
        if (is_device_uuid(entry)) {
            devices.emplace_back(entry);
            continue;
        }
        const auto range = parse_device_range(entry);
        if (!range) return refuse("");
        if (gpu_count > 0 && range->last >= gpu_count)
            return refuse(
                "this machine has " + std::to_string(gpu_count) + " GPUs, 0 to " +
                std::to_string(gpu_count - 1) + "; ");
        for (int number = range->first; number <= range->last; ++number)
            devices.push_back(std::to_string(number));
    }
    if (names_twice(devices)) return refuse("a device is named twice; ");
    return devices;
}

std::string device_list(const std::vector<std::string>& devices) {
    std::string text;
    for (const auto& device : devices)
        text += (text.empty() ? "" : ",") + device;
    return text;
}

}  // namespace ddprun::launcher
