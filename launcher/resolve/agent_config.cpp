// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/job_spec.hpp"

namespace ddprun::launcher {

agent::AgentConfig to_agent_config(const JobSpec& spec) {
    agent::AgentConfig config;
    config.run_id = spec.run_id.value;
    config.rendezvous = {spec.endpoint.value, spec.is_host.value, spec.is_static.value};
    config.nodes = spec.nodes.value;
    config.settings.join_timeout = spec.join_timeout.value;
    config.settings.last_call_timeout = spec.last_call_timeout.value;
    config.settings.lease = spec.lease.value;
    config.settings.grace = spec.grace.value;
    config.settings.late_nodes = spec.late_nodes.value;
    config.settings.max_losses = spec.max_losses.value;
    config.settings.restart = to_policy(spec.restarts);
    config.forwarded_signals = spec.signals.forwarded.value;
    config.settings.is_static = spec.is_static.value;
    config.max_restarts = spec.max_restarts.value;
    config.node_rank = spec.node_rank.value;
    config.local_addr = spec.local_addr.value;
    config.first_port = spec.ports.value.first;
    config.last_port = spec.ports.value.last;
    config.host_name = spec.host_name;
    config.shares_store = spec.shares_store.value;
    config.worker = {
        spec.command.program,
        spec.command.arguments,
        spec.environment,
        spec.nproc.value,
        spec.role.value,
        spec.binding.plan.workers,
        spec.has_virtual_local_rank.value};
    config.report = spec.report;
    config.output = spec.output.plan;
    config.event_file = spec.event_file.value;
    // As torchrun does, for workers that start agents of their own.
    const auto& stopping = spec.signals.stopping;
    if (stopping.origin != "default")
        config.worker.environment["TORCHELASTIC_SIGNALS_TO_HANDLE"] =
            describe_signals(stopping.value);
    return config;
}

}  // namespace ddprun::launcher
