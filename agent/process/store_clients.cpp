// SPDX-License-Identifier: Apache-2.0
#include "agent/process/store_clients.hpp"

#include "agent/plan/socket_table.hpp"
#include "agent/process/proc_files.hpp"
#include "rendezvous/base/limits.hpp"

#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <set>
#include <string>
#include <utility>

namespace ddprun::agent {
namespace {

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
    static bool is_there(int pid) { return ::access(proc_folder(pid).c_str(), F_OK) == 0; }

    bool has_own_network(int pid) const {
        return link_of(proc_folder(pid) + "/ns/net") == own_network_;
    }

    bool add_sockets(int pid, std::set<std::uint64_t>& inodes) {
        const auto folder = proc_folder(pid) + "/fd";
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
