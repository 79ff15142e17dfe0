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
/// itself. Pure: what the options mean, before anything is contacted.
struct HostJob {
    struct Place {
        std::string name;
        /// This machine: no ssh is needed.
        bool is_here = false;
        /// Of --nproc-per-node; empty: the default.
        std::string nproc;

        bool operator==(const Place&) const = default;
    };
    std::vector<Place> places;
    /// As --nnodes was given, else as many as there are hosts.
    control::NodeRange nodes;
    /// Marks what a host's ddprun writes for this process; random.
    std::string token;
    std::string run_id;
    /// Where the first node serves, unless --rdzv-endpoint says it.
    std::uint16_t port = 0;
    Duration connect_timeout{};
    Duration grace{};
    SignalChoice signals;
    agent::ReportPlan report;
    bool has_torchrun_exit_code = false;
    /// The user's options but those that are answered here.
    Options options;

    bool is_elastic() const { return nodes.min < static_cast<int>(places.size()); }
};

bool is_host_job(const Options& options);

/// On error the context is the sentence to show.
Result<HostJob> read_host_job(const Options& options, const SystemInfo& system);

/// The command line of the node that is number `node` of `count`. `first_address`: how the others
/// reach the first one.
std::vector<std::string> node_arguments(
    const HostJob& job, int place, int node, int count, const std::string& first_address);

/// "hostname 10.0.0.5" of what `ssh -G NAME` prints; without it the name, without its user.
std::string address_of(const std::string& name, std::string_view ssh_settings);

/// argv of the connection to a host. In place of what the user's settings have for sessions at a
/// terminal: no question, no forwarding, and a connection that is cut ends within seconds.
/// `ssh_settings`: what `ssh -G` prints of any host.
std::vector<std::string> ssh_arguments(
    const std::string& host, Duration connect_timeout, std::string_view ssh_settings);

/// What --explain prints.
std::string explain_hosts(const HostJob& job);

}  // namespace ddprun::launcher
