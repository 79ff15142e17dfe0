// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/runner/blocking_thread.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/coordinator/effects.hpp"
#include "rendezvous/net/driver.hpp"
#include "rendezvous/witness/leader_lease.hpp"
#include "rendezvous/witness/lease_engine.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::agent {

/// Finds the job's leader in the record of an engine (etcd, a Kubernetes Lease, the job's own
/// voters), and makes this node's server a candidate if there is no leader. The shell of
/// witness::LeaderLease.
///
/// Lives on the agent's thread. The functions may call hooks before they return.
class Election {
public:
    struct Hooks {
        /// Answers to `seek`.
        std::function<void(Endpoint leader)> on_found;
        std::function<void(std::string reason)> on_not_found;
        /// Makes this node's server listen, if it does not yet, and returns the address where
        /// others reach it; `own_address` is this machine's address on the route to the engine.
        std::function<Result<Endpoint>(const std::string& own_address)> open_server;
        /// The other answer to `seek`: this node's server leads.
        std::function<void(const witness::LeaderLease::Elected&)> on_elected;
        std::function<void(std::uint64_t epoch, Instant until)> on_extended;
        /// Answers to `record`.
        std::function<void(std::uint64_t number)> on_recorded;
        std::function<void(std::string reason)> on_deposed;
        /// Answers to `leave`.
        std::function<void()> on_released;
    };

    /// What keeps the record of the leader.
    struct Engine {
        std::unique_ptr<witness::LeaseEngine> client;
        /// As in messages: "etcd".
        std::string name;
        Duration ttl = limits::etcd_ttl;
        /// The leader of the first epoch was placed at the job's endpoint, and is known without it.
        bool is_first_placed = false;
        /// ElectionPlan::read_access.
        std::function<Result<witness::EngineAccess>()> read_access = {};
    };
    /// The client of etcd or Kubernetes. Requires: the plan has an engine outside of the job.
    static Engine outside_engine(
        boost::asio::io_context& io,
        const ElectionPlan& plan,
        const std::string& run_id,
        const std::string& nonce);

    /// `nonce`: of this process as a candidate.
    Election(boost::asio::io_context& io, Engine engine, std::string nonce, Hooks hooks);

    /// `is_first_try`: this is the first call since the connection to the last leader ended.
    void seek(bool is_first_try);
    bool is_leading() const { return driver_.machine().is_leading(); }
    /// The newest epoch in which this node has found a leader, or led itself; 0: none.
    std::uint64_t epoch() const { return noted_epoch_; }
    /// The address where other nodes reach this node's server; empty: it was no candidate yet.
    const std::string& own_endpoint() const { return own_endpoint_; }
    void step_down(std::uint64_t epoch, std::uint64_t known_epoch);
    /// Records that a job has ended under this node's server.
    void record(const coordinator::Record& record);
    void leave(bool is_job_over);

private:
    using Lease = witness::LeaderLease;

    void perform(Lease::Effect& effect);
    void ask(Lease::Ask ask);
    bool may_read_access() const;
    void read_access();
    void note_leader(const std::string& endpoint, std::uint64_t epoch);

    Hooks hooks_;
    std::unique_ptr<witness::LeaseEngine> engine_;
    std::function<Result<witness::EngineAccess>()> read_access_;
    /// Set only if there are files.
    std::optional<BlockingThread> files_;
    bool is_reading_ = false;
    Instant may_read_access_at_{};
    net::Driver<Lease> driver_;
    /// The endpoint with which this node's server was announced.
    std::string own_endpoint_;
    bool is_first_placed_;
    std::uint64_t noted_epoch_ = 0;
};

}  // namespace ddprun::agent
