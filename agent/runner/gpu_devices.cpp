// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/gpu_devices.hpp"

#include "agent/process/proc_files.hpp"
#include "rendezvous/base/limits.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr const char* gpu_folder = "/proc/driver/nvidia/gpus";
constexpr int max_information_lines = 64;

/// "/dev/nvidia3", by the line "Device Minor: 3" in the GPU's folder.
std::optional<std::string> device_in(const std::filesystem::path& folder) {
    std::ifstream information(folder / "information");
    std::string line;
    for (int count = 0; count < max_information_lines && std::getline(information, line); ++count) {
        constexpr std::string_view name = "Device Minor:";
        if (!line.starts_with(name)) continue;
        const auto digits = line.find_first_of("0123456789", name.size());
        if (digits == std::string::npos) return std::nullopt;
        const auto end = line.find_first_not_of("0123456789", digits);
        return "/dev/nvidia" + line.substr(digits, end == std::string::npos ? end : end - digits);
    }
    return std::nullopt;
}

std::optional<std::string> device_of(const std::string& gpu) {
    std::error_code failed;
    std::filesystem::directory_iterator folders(gpu_folder, failed);
    for (; !failed && folders != std::filesystem::directory_iterator{}; folders.increment(failed))
        if (health::pci_address(folders->path().filename().string()) == gpu)
            return device_in(folders->path());
    return std::nullopt;
}

/// Looks for an open device, at no more than limits::max_inspected_descriptors for all workers.
class DeviceSearch {
public:
    explicit DeviceSearch(std::string device) : device_(std::move(device)) {}

    /// `pids`: the leader and the orphans of its session.
    bool is_open_in(std::vector<int> pids) {
        for (std::size_t i = 0; i < pids.size(); ++i) {
            if (is_open_in(pids[i])) return true;
            if (++inspected_ > limits::max_inspected_descriptors) return false;
            add_children(pids[i], pids);
        }
        return false;
    }

private:
    bool is_open_in(int pid) {
        const auto folder = proc_folder(pid) + "/fd";
        const auto descriptors = numbers_in(folder);
        if (!descriptors) return false;
        return std::any_of(descriptors->begin(), descriptors->end(), [&](const auto& descriptor) {
            return ++inspected_ <= limits::max_inspected_descriptors &&
                   link_of(folder + "/" + descriptor) == device_;
        });
    }

    const std::string device_;
    std::size_t inspected_ = 0;
};

}  // namespace

std::vector<int> users_of_gpu(const health::XidLine& line, const std::vector<GpuUser>& workers) {
    std::vector<int> leaders;
    std::vector<std::vector<int>> roots;
    for (const auto& worker : workers) {
        leaders.push_back(worker.has_ended ? 0 : worker.pid);
        roots.push_back({leaders.back()});
    }
    add_orphans(leaders, roots);
    const auto device = device_of(line.gpu);
    DeviceSearch search(device.value_or(""));
    const bool has_kernels_pids = has_machine_pids();
    std::vector<int> users;
    for (std::size_t i = 0; i < workers.size(); ++i) {
        const auto& worker = workers[i];
        if (has_kernels_pids && line.pid && *line.pid == worker.pid && worker.pid > 0)
            users.insert(users.begin(), worker.local_rank);
        else if (leaders[i] > 0 && device && search.is_open_in(std::move(roots[i])))
            users.push_back(worker.local_rank);
    }
    return users;
}

}  // namespace ddprun::agent
