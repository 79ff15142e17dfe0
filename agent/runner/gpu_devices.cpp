// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/gpu_devices.hpp"

#include "agent/health/xid_action.hpp"
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

/// How the processes of one worker are connected with an error.
struct Use {
    bool is_named = false;
    bool has_device = false;
};

/// Searches the workers' processes for a named process and an open device. Inspects at most
/// limits::max_inspected_descriptors processes and descriptors for all workers together.
class UseSearch {
public:
    UseSearch(std::string device, std::optional<int> named)
        : device_(std::move(device)),
          named_(named) {}

    /// `pids`: the leader and the orphans of its session.
    Use in(std::vector<int> pids) {
        Use use;
        for (std::size_t i = 0; i < pids.size(); ++i) {
            if (++inspected_ > limits::max_inspected_descriptors) break;
            if (pids[i] == named_) use.is_named = true;
            if (!use.has_device && !device_.empty()) use.has_device = is_open_in(pids[i]);
            add_children(pids[i], pids);
        }
        return use;
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
    const std::optional<int> named_;
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
    const auto named = has_machine_pids() ? line.pid : std::nullopt;
    UseSearch search(device_of(line.gpu).value_or(""), named);
    std::vector<int> users;
    for (std::size_t i = 0; i < workers.size(); ++i) {
        const auto& worker = workers[i];
        const bool was_named = named && *named == worker.pid && worker.pid > 0;
        const auto use = leaders[i] > 0 ? search.in(std::move(roots[i])) : Use{};
        if (was_named || use.is_named) return {worker.local_rank};
        if (use.has_device) users.push_back(worker.local_rank);
    }
    // An error that needs a restart stops only the named process, which belongs to no worker.
    const bool is_of_one_process = health::action_of(line) == health::XidAction::restart;
    return named && is_of_one_process ? std::vector<int>{} : users;
}

}  // namespace ddprun::agent
