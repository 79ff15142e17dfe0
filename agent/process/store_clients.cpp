// SPDX-License-Identifier: Apache-2.0
#include "agent/process/store_clients.hpp"

#include "agent/plan/socket_table.hpp"
#include "rendezvous/base/limits.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace ddprun::agent {
namespace {

struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
};

/// The names in a folder of /proc that are numbers; none when it cannot be read.
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

std::string folder_of(int pid) {
    return "/proc/" + std::to_string(pid);
}

/// Returns false when the kernel does not show them.
bool add_children(int pid, std::vector<int>& pids) {
    const auto threads = numbers_in(folder_of(pid) + "/task");
    if (!threads) return false;
    bool is_known = false;
    for (const auto& thread : *threads) {
        std::ifstream children(folder_of(pid) + "/task/" + thread + "/children");
        is_known |= children.is_open();
        for (int child = 0; children >> child;)
            pids.push_back(child);
    }
    return is_known;
}

/// Inspects the processes of workers, with at most limits::max_inspected_descriptors for all of
/// them.
class Inspection {
public:
    /// `pids`: the leader and the orphans of its session.
    WorkerSockets look_at(int local_rank, std::vector<int> pids) {
        WorkerSockets worker{local_rank, {}, true};
        for (std::size_t i = 0; i < pids.size(); ++i) {
            const bool is_seen = ++inspected_ <= limits::max_inspected_descriptors &&
                                 add_children(pids[i], pids) && has_own_network(pids[i]) &&
                                 add_sockets(pids[i], worker.inodes);
            // A process below the leader may have ended meanwhile.
            if (!is_seen && (i == 0 || is_there(pids[i]))) worker.is_complete = false;
        }
        return worker;
    }

private:
    static bool is_there(int pid) { return ::access(folder_of(pid).c_str(), F_OK) == 0; }

    bool has_own_network(int pid) const {
        return link_of(folder_of(pid) + "/ns/net") == own_network_;
    }

    bool add_sockets(int pid, std::set<std::uint64_t>& inodes) {
        const auto folder = folder_of(pid) + "/fd";
        const auto descriptors = numbers_in(folder);
        if (!descriptors) return false;
        for (const auto& descriptor : *descriptors) {
            if (++inspected_ > limits::max_inspected_descriptors) return false;
            const auto link = link_of(folder + "/" + descriptor);
            if (link.empty() && errno != ENOENT) return false;
            if (const auto inode = socket_inode(link); inode != 0) inodes.insert(inode);
        }
        // A process that ends loses all descriptors at once, so the list may be truncated or empty.
        const auto still = numbers_in(folder);
        return still && !still->empty();
    }

    const std::string own_network_ = link_of("/proc/self/ns/net");
    std::size_t inspected_ = 0;
};

/// Returns false when the table exceeds the limit, or cannot be read.
bool add_table(const char* path, std::uint16_t port, SocketTable& table) {
    std::ifstream file(path);
    std::string line;
    std::size_t bytes = 0;
    while (std::getline(file, line)) {
        bytes += line.size();
        if (bytes > limits::max_socket_table_bytes) return false;
        add_connections_to(port, line, table);
    }
    return bytes > 0;
}

/// Adds each orphan to the processes of its worker, from which the search begins. An orphan is a
/// child of this process and belongs to the worker whose session it has. Returns false when one
/// belongs to no worker.
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

}  // namespace

control::StoreClients find_store_clients(
    int round, std::uint16_t port, const std::vector<int>& pids_by_local_rank) {
    std::vector<std::vector<int>> roots;
    for (const int leader : pids_by_local_rank)
        roots.push_back({leader});
    bool is_complete = add_orphans(pids_by_local_rank, roots);
    Inspection inspection;
    std::vector<WorkerSockets> workers;
    for (std::size_t local_rank = 0; local_rank < roots.size(); ++local_rank)
        if (pids_by_local_rank[local_rank] > 0)
            workers.push_back(
                inspection.look_at(static_cast<int>(local_rank), std::move(roots[local_rank])));
    SocketTable table;
    control::StoreClients clients;
    // The kernel may omit a line while other lines are added or removed.
    for (int reading = 0; reading < 2; ++reading) {
        is_complete &= add_table("/proc/self/net/tcp", port, table);
        // Without IPv6 this file does not exist.
        if (::access("/proc/self/net/tcp6", F_OK) == 0)
            is_complete &= add_table("/proc/self/net/tcp6", port, table);
        clients = store_clients(round, workers, table);
        if (clients.unconnected.empty()) break;
    }
    if (!is_complete) clients.unconnected.clear();
    return clients;
}

}  // namespace ddprun::agent
