// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/topology.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/whole_number.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace ddprun::agent {
namespace {

std::optional<int> parse_cpu_number(std::string_view text) {
    const auto number = whole_number<int>(text);
    if (!number || *number < 0 || *number > limits::max_cpu_number) return std::nullopt;
    return number;
}

/// The GPU of a MIG device in the older notation, "MIG-GPU-<uuid>/1/0".
std::string_view gpu_of(std::string_view device) {
    constexpr std::string_view mig = "MIG-";
    if (device.starts_with("MIG-GPU-")) device = device.substr(mig.size());
    return device.substr(0, device.find('/'));
}

const Gpu* gpu_named(const std::vector<Gpu>& all, std::string_view device) {
    if (const auto index = whole_number<std::size_t>(device))
        return *index < all.size() ? &all[*index] : nullptr;
    // A UUID may be shortened as long as it is unambiguous.
    const auto uuid = gpu_of(device);
    const auto has_uuid = [&](const Gpu& gpu) {
        return !uuid.empty() && gpu.uuid.starts_with(uuid);
    };
    const auto found = std::find_if(all.begin(), all.end(), has_uuid);
    return found == all.end() ? nullptr : &*found;
}

bool is_known_device(std::string_view entry, std::string_view first, int gpu_count) {
    // CUDA accepts only one kind of name in a list.
    if (is_device_uuid(first)) return entry.starts_with(first.substr(0, 4));
    const auto number = whole_number<int>(entry);
    return number && *number >= 0 && *number < gpu_count;
}

}  // namespace

std::optional<CpuList> parse_cpu_list(std::string_view text) {
    CpuList list;
    text = trimmed(text, " \t\n");
    if (text.empty()) return list;
    for (const auto part : split(text, ',')) {
        const auto dash = part.find('-');
        const auto first = parse_cpu_number(part.substr(0, dash));
        const auto last =
            dash == std::string_view::npos ? first : parse_cpu_number(part.substr(dash + 1));
        if (!first || !last || *last < *first) return std::nullopt;
        // Numbers must ascend, so that a hostile text cannot repeat them and make the list huge.
        if (!list.empty() && *first <= list.back()) return std::nullopt;
        for (int number = *first; number <= *last; ++number)
            list.push_back(number);
    }
    return list;
}

std::string describe(const CpuList& list) {
    std::string text;
    for (auto first = list.begin(); first != list.end();) {
        auto last = first;
        while (std::next(last) != list.end() && *std::next(last) == *last + 1)
            ++last;
        if (!text.empty()) text += ',';
        text += std::to_string(*first);
        if (last != first) text += '-' + std::to_string(*last);
        first = std::next(last);
    }
    return text;
}

bool contains(const CpuList& list, int number) {
    return std::binary_search(list.begin(), list.end(), number);
}

CpuList common(const CpuList& left, const CpuList& right) {
    CpuList both;
    std::set_intersection(
        left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(both));
    return both;
}

const char* visible_variable(const std::map<std::string, std::string>& environment) {
    const auto hip = environment.find("HIP_VISIBLE_DEVICES");
    const bool counts = hip != environment.end() && !hip->second.empty();
    return counts ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
}

std::optional<std::vector<Gpu>> visible_gpus(
    const std::vector<Gpu>& all, const std::optional<std::string>& variable) {
    if (!variable) return all;
    std::vector<Gpu> visible;
    for (const auto& device : visible_devices(*variable, static_cast<int>(all.size()))) {
        if (device.starts_with("MIG-") && !device.starts_with("MIG-GPU-")) return std::nullopt;
        const auto* gpu = gpu_named(all, device);
        if (gpu == nullptr) break;  // the driver, too, ignores such an entry and all after it
        visible.push_back(*gpu);
    }
    return visible;
}

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
