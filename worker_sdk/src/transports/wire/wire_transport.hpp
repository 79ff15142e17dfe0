// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/store.hpp"
#include "worker_sdk/src/groups/death_reports.hpp"
#include "worker_sdk/src/groups/scratch.hpp"
#include "worker_sdk/src/groups/transport.hpp"
#include "worker_sdk/src/transports/wire/mesh.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::groups {

/// Ranks on several hosts, all connected with each other by TCP. `Mesh` has the connections, and
/// `plan` decides how each collective uses them.
class WireTransport : public Transport {
public:
    struct Settings {
        /// The ranks that this transport connects, as numbered by the group and in errors. Calls
        /// number them by their index here.
        std::vector<int> ranks;
        int own_rank = 0;
        std::string address;
        bool has_core = false;
        /// The store in which the addresses are, under `prefix`. Each address is awaited until
        /// `deadline`, or until a rank has died.
        Store store;
        std::string prefix;
        DeathReports deaths;
        std::chrono::steady_clock::time_point deadline;
    };

    /// Starts to listen, without connecting yet.
    static std::variant<std::unique_ptr<WireTransport>, GroupError> open(Settings settings);

    WireTransport(Settings settings, std::unique_ptr<Mesh> mesh);

    Outcome connect() override { return connect({}); }
    Outcome run(const Collective& collective, std::chrono::milliseconds timeout) override {
        return run_step(collective, collective, timeout, {});
    }
    /// Like `Transport::connect`; `during_wait` is called now and then during a long wait.
    Outcome connect(const std::function<void()>& during_wait);
    /// Performs one step of the program's call `whole`, which is compared with the peers' and named
    /// in errors.
    Outcome run_step(
        const Collective& step,
        const Collective& whole,
        std::chrono::milliseconds timeout,
        const std::function<void()>& during_wait);
    void abort() override { mesh_->abort(); }
    bool is_broken() override { return mesh_->is_any_closed(); }
    bool is_for_any_thread() const override { return true; }

private:
    std::vector<PeerAddress> exchange_addresses(const std::function<void()>& during_wait);
    GroupError named(GroupError error) const;
    GroupError mismatch_with(const GroupError& found, const Collective& whole) const;

    Settings settings_;
    std::unique_ptr<Mesh> mesh_;
    /// Memory for collectives, one of which runs at a time. Kept for the next one: fresh pages
    /// would cost more than the network.
    Scratch<std::byte> scratch_;
};

}  // namespace ddprun::groups
