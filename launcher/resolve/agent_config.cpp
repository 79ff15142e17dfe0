// SPDX-License-Identifier: Apache-2.0
#include "agent/workers/bootstrap.hpp"
#include "launcher/resolve/job_spec.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <algorithm>
#include <variant>

namespace ddprun::launcher {
namespace {

Duration shortest_lease(const agent::ElectionPlan& election) {
    return std::visit(
        Overloaded{
            [](const agent::EtcdPlan&) { return limits::shortest_elected_lease; },
            [](const witness::kubernetes::LeasePlace&) {
                return limits::shortest_lease_by_kubernetes;
            },
            [](const agent::VotersPlan&) { return limits::shortest_voted_lease; }},
        election.engine);
}

control::Join to_join(const JobSpec& spec) {
    control::Join join;
    join.run_id = spec.run_id.value;
    join.incarnation = spec.incarnation;
    join.node = spec.node;
    join.nodes = spec.nodes.value;
    join.node_rank = spec.node_rank.value;
    join.addr = spec.local_addr.value;
    join.max_restarts = spec.max_restarts.value;
    join.settings.join_timeout = spec.join_timeout.value;
    join.settings.replacement_timeout = spec.replacement_timeout.value;
    join.settings.last_call_timeout = spec.last_call_timeout.value;
    join.settings.lease = spec.lease.value;
    if (spec.election.value)
        join.settings.lease = std::max(join.settings.lease, shortest_lease(*spec.election.value));
    join.settings.grace = spec.grace.value;
    join.settings.is_static = spec.is_static.value;
    join.settings.store_access = spec.store_access.value;
    join.settings.late_nodes = spec.late_nodes.value;
    join.settings.recovery = spec.recovery.value;
    if (spec.recovery_timeout.value != limits::recovery_timeout)
        join.settings.recovery_timeout = spec.recovery_timeout.value;
    join.settings.hang_after = spec.hang_after.value;
    join.settings.on_hang = spec.on_hang.value;
    join.settings.failover = spec.failover.value;
    if (!spec.health_check.value.empty()) join.settings.health_timeout = spec.health_timeout.value;
    join.settings.max_losses = spec.max_losses.value;
    join.settings.restart = to_policy(spec.restarts);
    return join;
}

}  // namespace

agent::AgentConfig to_agent_config(const JobSpec& spec) {
    agent::AgentConfig config;
    config.join = to_join(spec);
    config.rendezvous = {
        spec.endpoint.value, spec.is_host.value, spec.is_static.value, spec.election.value};
    config.warns_of_no_secret = spec.secret.is_missed;
    config.forwarded_signals = spec.signals.forwarded.value;
    config.preemption = {spec.signals.preemption.value, spec.deadline.length.value, std::nullopt};
    config.is_signalled_as_a_whole = spec.is_signalled_as_a_whole;
    config.first_port = spec.ports.value.first;
    config.last_port = spec.ports.value.last;
    config.own_name_problem = spec.own_name_problem;
    config.shares_store = spec.shares_store.value;
    if (spec.has_legacy_c10d) config.accepted = wire::Accepted::legacy_too;
    config.worker = {
        spec.command.program,
        spec.command.arguments,
        spec.environment,
        spec.nproc.value,
        spec.role.value,
        spec.binding.plan.workers,
        spec.has_virtual_local_rank.value,
        spec.command.python_origin,
        spec.wrapper.value,
        spec.attachment.value,
        spec.is_warm.value ? std::string{agent::bootstrap()} : std::string{}};
    config.report = spec.report;
    config.output = spec.output.plan;
    config.health_check = spec.health_check.value;
    config.is_health_strict = spec.is_health_strict.value;
    config.follows_xids = spec.follows_xids.value;
    config.event_file = spec.event_file.value;
    // torchrun does the same, for workers that start their own agents.
    const auto& stopping = spec.signals.stopping;
    if (stopping.origin != "default")
        config.worker.environment["TORCHELASTIC_SIGNALS_TO_HANDLE"] =
            describe_signals(stopping.value);
    return config;
}

}  // namespace ddprun::launcher
