// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/fields.hpp"
#include "rendezvous/control/job_command.hpp"
#include "rendezvous/control/worker_order_fields.hpp"

/// The fields of commands to the rendezvous server, from `ddprunctl` or forwarded by an agent, and
/// of the answers to `ddprunctl`, as in fields.hpp.
namespace ddprun::control {

template <>
inline constexpr std::string_view type_name<Drain> = "drain";
template <class Io>
void fields(Io& io, Like<Io, Drain>& drain) {
    io("id", drain.id, any_count);
    io("nodes", drain.nodes, List{limits::max_drained_nodes, not_empty});
    io.optional("forced", drain.is_forced);
    io("by", drain.by, Name{});
}

template <>
inline constexpr std::string_view type_name<Undrain> = "undrain";
template <class Io>
void fields(Io& io, Like<Io, Undrain>& undrain) {
    io("id", undrain.id, any_count);
    io("nodes", undrain.nodes, List{limits::max_drained_nodes, not_empty});
    io("by", undrain.by, Name{});
}

template <>
inline constexpr std::string_view type_name<Resize> = "resize";
template <class Io>
void fields(Io& io, Like<Io, Resize>& resize) {
    io("id", resize.id, any_count);
    io("nnodes", resize.nodes);
    io("by", resize.by, Name{});
}

template <>
inline constexpr std::string_view type_name<JobCommand> = "job_command";
template <class Io>
void fields(Io& io, Like<Io, JobCommand>& command) {
    io("what", command.what);
    io.optional("run_id", command.run_id, Name{});
    io.optional("nodes", command.nodes, List{limits::max_drained_nodes, not_empty});
    io.optional("forced", command.is_forced);
    io.optional("grace", command.grace);
    io.optional("by", command.by, Name{});
    io.optional("nnodes", command.range);
    io.optional("signal", command.signal, some_signal);
    io.optional("ranks", command.ranks);
}

template <class Io>
void fields(Io& io, Like<Io, NodeSummary>& node) {
    io("host", node.host, Name{});
    io("nonce", node.nonce, Name{});
    io("pid", node.pid, any_count);
    io("state", node.state, Name{});
    io.optional("group_rank", node.group_rank, any_count);
    io.optional("first_rank", node.first_rank, any_count);
    io.optional("last_rank", node.last_rank, any_count);
    io("heard_ago", node.heard_ago);
}

template <class Io>
void fields(Io& io, Like<Io, JobSummary>& job) {
    io("run_id", job.run_id, not_empty);
    io.optional("incarnation", job.incarnation, Name{});
    io("state", job.state, Name{});
    io.optional("reason", job.reason, Text{});
    io("round", job.round, Whole{-1, biggest_int});
    io.optional("nnodes", job.nnodes, Name{});
    io("node_count", job.node_count, any_count);
    io("world_size", job.world_size, any_count);
    io("restarts_used", job.restarts_used, small_count);
    io("max_restarts", job.max_restarts, small_count);
    io.optional("first_cause", job.root_cause, Text{});
    io.optional("nodes", job.nodes, List{limits::max_summary_nodes});
    io.optional("drained_hosts", job.drained_hosts, List{limits::max_summary_drained});
}

template <>
inline constexpr std::string_view type_name<JobCommandAnswer> = "job_command_answer";
template <class Io>
void fields(Io& io, Like<Io, JobCommandAnswer>& answer) {
    io("outcome", answer.outcome);
    io.optional("text", answer.text, Text{});
    io.optional("jobs", answer.jobs, List{limits::max_summary_jobs});
    io.optional("more_jobs", answer.more_jobs, any_count);
}

}  // namespace ddprun::control
