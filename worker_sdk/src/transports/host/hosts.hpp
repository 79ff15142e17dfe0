// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/store.hpp"
#include "worker_sdk/src/groups/death_reports.hpp"
#include "worker_sdk/src/transports/host/segment.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::groups {

/// The ranks of a group by host; the ranks of a host share memory. Hosts are in the order of their
/// first ranks, which are their leaders.
class Hosts {
public:
    using Clock = std::chrono::steady_clock;

    /// The id of a rank's host: $DDPRUN_HOST_ID, or the boot, the namespaces and the user. Equal
    /// ids are only a hint: whether memory can be shared is tested.
    static std::string own_id();

    /// The rendezvous of the group's ranks, and how long they wait for each other.
    struct Rendezvous {
        Store store;
        DeathReports deaths;
        Clock::time_point until;
        /// Set by these waits.
        std::optional<Clock::time_point> stop_seen_at{};

        /// Waits for the value of a key that another rank sets. Throws like
        /// `require_still_possible`, and Timeout.
        std::string await(const std::string& key);
        /// Throws PeerLost when a rank has died, or a stop was announced: its peers may be gone.
        void require_still_possible();
        void require_no_stop();
    };

    /// Every rank calls it. Determines which ranks share a host, and creates this host's memory.
    /// Ranks that have equal ids but cannot share memory become separate hosts. Throws what the
    /// store and `Rendezvous` throw.
    static Hosts find(Rendezvous rendezvous, const std::string& prefix, int rank, int world_size);

    /// The ranks that have not called `find`; none when the store does not answer.
    static std::vector<int> missing(Store& store, const std::string& prefix, int world_size);

    const std::vector<std::vector<int>>& all() const { return hosts_; }
    /// The index of this rank's host.
    std::size_t own() const { return own_; }
    /// Null when the host has one rank.
    const std::shared_ptr<Segment>& segment() const { return segment_; }

private:
    std::vector<std::vector<int>> hosts_;
    std::size_t own_ = 0;
    std::shared_ptr<Segment> segment_;
};

/// "0,0,1,0": the number of each rank's host. Equal ids have equal numbers.
std::string host_numbers(const std::vector<std::string>& ids);
/// The ranks of each host, in order. Empty when the text is not from `host_numbers` for that many
/// ranks.
std::vector<std::vector<int>> ranks_by_host(const std::string& numbers, std::size_t world_size);

}  // namespace ddprun::groups
