// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/report/report_plan.hpp"
#include "launcher/grammar/host_list.hpp"
#include "launcher/grammar/options.hpp"
#include "launcher/resolve/job_spec.hpp"
#include "launcher/resolve/signal_options.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// A job of --hosts or --hostfile: this process starts a ddprun on each host and runs no worker
/// itself. Pure: evaluates the options before any host is contacted.
struct HostJob {
    struct Place {
        std::string name;
        /// The host is this machine: no ssh is needed.
        bool is_here = false;
        /// The value for --nproc-per-node; empty: the default.
        std::string nproc;

        bool operator==(const Place&) const = default;
    };
    std::vector<Place> places;
    /// The value of --nnodes, else the number of hosts.
    control::NodeRange nodes;
    /// A random mark for what a host's ddprun writes to this process.
    std::string token;
    std::string run_id;
    /// The port of the first node, unless --rdzv-endpoint sets it.
    std::uint16_t port = 0;
    Duration connect_timeout{};
    Duration grace{};
    SignalChoice signals;
    agent::ReportPlan report;
    bool has_torchrun_exit_code = false;
    /// The user's options, except those that are handled here.
    Options options;

    bool is_elastic() const { return nodes.min < static_cast<int>(places.size()); }
};

bool is_host_job(const Options& options);

/// On error the context is the message to show.
Result<HostJob> read_host_job(const Options& options, const SystemInfo& system);

/// The command line of node number `node` of `count`. `first_address`: the address of the first
/// node for the others.
std::vector<std::string> node_arguments(
    const HostJob& job, int place, int node, int count, const std::string& first_address);

/// The value of the line "hostname 10.0.0.5" in the output of `ssh -G NAME`; if there is none, the
/// name without its user.
std::string address_of(const std::string& name, std::string_view ssh_settings);

/// argv of the connection to a host. Overrides the user's settings for interactive sessions: no
/// questions, no forwarding, and a broken connection ends within seconds. `ssh_settings`: the
/// output of `ssh -G` for any host.
std::vector<std::string> ssh_arguments(
    const std::string& host, Duration connect_timeout, std::string_view ssh_settings);

/// The output of --explain.
std::string explain_hosts(const HostJob& job);

}  // namespace ddprun::launcher
