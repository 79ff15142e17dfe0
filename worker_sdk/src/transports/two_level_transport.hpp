// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/failure_monitor.hpp"
#include "worker_sdk/src/groups/scratch.hpp"
#include "worker_sdk/src/groups/transport.hpp"
#include "worker_sdk/src/transports/host/host_transport.hpp"
#include "worker_sdk/src/transports/wire/wire_transport.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::groups {

/// Ranks on several hosts: shared memory within each, TCP between the leaders (the first rank of
/// each host) for all_reduce, reduce_scatter, broadcast and barrier. The other collectives use TCP
/// between all ranks, which connect at the first such call; messages to another host use their own
/// connection.
class TwoLevelTransport : public Transport {
public:
    using Opened = std::variant<std::unique_ptr<WireTransport>, GroupError>;
    /// Opens connections from this rank, one of `ranks`, to the others. `name` is the same on all
    /// of them.
    using Open = std::function<Opened(const std::string& name, const std::vector<int>& ranks)>;

    struct Settings {
        int rank = 0;
        std::vector<std::vector<int>> hosts;
        std::size_t own_host = 0;
        std::shared_ptr<Segment> segment;  // null: alone on this host
        std::shared_ptr<FailureMonitor> monitor;
        Open open;
    };

    explicit TwoLevelTransport(Settings settings);

    /// Connects the leaders; the other ranks are connected already.
    Outcome connect() override;
    Outcome run(const Collective& collective, std::chrono::milliseconds timeout) override;
    void abort() override;
    bool is_broken() override;
    bool is_for_any_thread() const override { return true; }
    bool is_quick(const Collective& collective) const override;
    bool keeps_timeout() const override { return false; }
    /// The missing ranks of this host. (A leader that is late may be waiting for another host.)
    std::vector<int> missing() override;
    std::shared_ptr<Arena> arena() override { return host_ ? host_->arena() : nullptr; }

private:
    /// Connections between some ranks, made when they are first needed.
    struct Way {
        std::mutex opening;
        // Guarded by it:
        bool is_connected = false;
        /// The failure of the first attempt, which is final: another attempt would publish an
        /// address that no peer reads.
        Outcome failure;
        std::shared_ptr<WireTransport> transport;
    };

    Outcome all_reduce(const Collective& collective, std::chrono::milliseconds timeout);
    Outcome broadcast(const Collective& collective, std::chrono::milliseconds timeout);
    Outcome reduce_scatter(const Collective& collective, std::chrono::milliseconds timeout);
    Outcome barrier(const Collective& collective, std::chrono::milliseconds timeout);
    Outcome move(const Collective& message, std::chrono::milliseconds timeout);
    Outcome here(
        const Collective& step, const Collective& whole, std::chrono::milliseconds timeout);
    Outcome from_leader(
        const Collective& step, const Collective& whole, std::chrono::milliseconds timeout);
    Outcome between_leaders(
        const Collective& step, const Collective& whole, std::chrono::milliseconds timeout);
    Outcome over(
        const std::string& name,
        const std::vector<int>& ranks,
        const Collective& step,
        const Collective& whole,
        std::chrono::milliseconds timeout);
    std::vector<int> suspects_of(const std::vector<int>& waiting, const Collective& whole) const;
    std::variant<std::shared_ptr<WireTransport>, GroupError> way(
        const std::string& name,
        const std::vector<int>& ranks,
        const std::function<void()>& during_wait);
    void abort_ways();
    std::vector<std::shared_ptr<WireTransport>> open_ways();
    const std::vector<int>& own_ranks() const { return settings_.hosts[settings_.own_host]; }
    bool is_leader() const { return own_ranks().front() == settings_.rank; }
    std::size_t host_of(int rank) const;
    std::size_t largest_host() const;
    const std::byte* by_host(const std::byte* by_rank, std::size_t part_bytes);

    const Settings settings_;
    std::vector<int> leaders_;
    std::vector<int> all_ranks_;
    /// Whether each host has the same number of ranks, and these are consecutive.
    bool is_by_host_ = false;
    /// Memory for a leader's reduce_scatter: its host's sums by host, and the parts of its host.
    Scratch<std::byte> sums_;
    Scratch<std::byte> sorted_;
    Scratch<std::byte> parts_;
    std::unique_ptr<HostTransport> host_;
    std::mutex mutex_;
    std::map<std::string, Way> ways_;
    bool is_aborted_ = false;
};

}  // namespace ddprun::groups
