// SPDX-License-Identifier: Apache-2.0
#include "agent/process/proc_files.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <fstream>
#include <memory>

namespace ddprun::agent {
namespace {

struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
};

}  // namespace

std::optional<std::vector<std::string>> numbers_in(const std::string& path) {
    const std::unique_ptr<DIR, CloseFolder> folder(::opendir(path.c_str()));
    if (!folder) return std::nullopt;
    std::vector<std::string> names;
    while (const auto* entry = ::readdir(folder.get()))
        if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) != 0)
            names.emplace_back(entry->d_name);
    return names;
}

std::string link_of(const std::string& path) {
    std::array<char, 128> target{};
    const auto size = ::readlink(path.c_str(), target.data(), target.size());
    return size > 0 ? std::string(target.data(), static_cast<std::size_t>(size)) : std::string{};
}

std::string proc_folder(int pid) {
    return "/proc/" + std::to_string(pid);
}

bool add_children(int pid, std::vector<int>& pids) {
    const auto threads = numbers_in(proc_folder(pid) + "/task");
    if (!threads) return false;
    bool is_known = false;
    for (const auto& thread : *threads) {
        std::ifstream children(proc_folder(pid) + "/task/" + thread + "/children");
        is_known |= children.is_open();
        for (int child = 0; children >> child;)
            pids.push_back(child);
    }
    return is_known;
}

bool has_machine_pids() {
    constexpr ino_t first_pid_namespace = 0xEFFFFFFC;
    struct stat about {};
    return ::stat("/proc/self/ns/pid", &about) == 0 && about.st_ino == first_pid_namespace;
}

bool add_orphans(const std::vector<int>& leaders, std::vector<std::vector<int>>& roots) {
    std::vector<int> children;
    if (!add_children(::getpid(), children)) return false;
    bool is_complete = true;
    for (const int child : children) {
        if (std::find(leaders.begin(), leaders.end(), child) != leaders.end()) continue;
        const auto leader = std::find(leaders.begin(), leaders.end(), ::getsid(child));
        if (leader == leaders.end())
            is_complete = false;
        else
            roots[static_cast<std::size_t>(leader - leaders.begin())].push_back(child);
    }
    return is_complete;
}

}  // namespace ddprun::agent
