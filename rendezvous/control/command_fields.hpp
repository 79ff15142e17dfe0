// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/command.hpp"
#include "rendezvous/control/fields.hpp"
#include "rendezvous/control/worker_order_fields.hpp"

/// The fields of the messages between `ddprunctl` and an agent, as in fields.hpp.
namespace ddprun::control {

template <>
inline constexpr std::string_view type_name<ShowNode> = "show_node";
template <class Io>
void fields(Io&, Like<Io, ShowNode>&) {}

template <>
inline constexpr std::string_view type_name<StopJob> = "stop_job";
template <class Io>
void fields(Io& io, Like<Io, StopJob>& stop) {
    io.optional("grace", stop.grace);
}

template <>
inline constexpr std::string_view type_name<SignalWorkers> = "signal_workers";
template <class Io>
void fields(Io& io, Like<Io, SignalWorkers>& order) {
    io("signal", order.signal, some_signal);
    io.optional("rank", order.rank, any_count);
    io.optional("last_rank", order.last_rank, any_count);
}

template <>
inline constexpr std::string_view type_name<ShowStack> = "show_stack";
template <class Io>
void fields(Io& io, Like<Io, ShowStack>& order) {
    io("rank", order.rank, any_count);
}

template <>
inline constexpr std::string_view type_name<DrainNodes> = "drain_nodes";
template <class Io>
void fields(Io& io, Like<Io, DrainNodes>& order) {
    io("nodes", order.nodes, List{limits::max_drained_nodes, not_empty});
    io.optional("forced", order.is_forced);
}

template <>
inline constexpr std::string_view type_name<UndrainNodes> = "undrain_nodes";
template <class Io>
void fields(Io& io, Like<Io, UndrainNodes>& order) {
    io("nodes", order.nodes, List{limits::max_drained_nodes, not_empty});
}

template <>
inline constexpr std::string_view type_name<ResizeJob> = "resize_job";
template <class Io>
void fields(Io& io, Like<Io, ResizeJob>& order) {
    io("nnodes", order.nodes);
}

template <>
inline constexpr std::string_view type_name<NodeView> = "node_view";
template <class Io>
void fields(Io& io, Like<Io, NodeView>& view) {
    io("run_id", view.run_id, not_empty);
    io.optional("incarnation", view.incarnation, Name{});
    io("state", view.state, Name{});
    io.optional("reason", view.reason, Text{});
    io("host", view.host, Name{});
    io("pid", view.pid, any_count);
    io.optional("endpoint", view.endpoint, Name{});
    io.optional("page_token", view.page_token, Name{});
    io.optional("is_connected", view.is_connected);
    io.optional("program", view.program, Text{});
    io("nnodes", view.nodes);
    io("nproc", view.worker_count, worker_count);
    io.optional("assignment", view.assignment);
    io("max_restarts", view.max_restarts, small_count);
    io("since", view.since);
    io("age", view.age);
}

template <>
inline constexpr std::string_view type_name<CommandDone> = "command_done";
template <class Io>
void fields(Io& io, Like<Io, CommandDone>& done) {
    io("text", done.text, Text{});
}

template <>
inline constexpr std::string_view type_name<CommandRefused> = "command_refused";
template <class Io>
void fields(Io& io, Like<Io, CommandRefused>& refused) {
    io("why", refused.why);
    io("reason", refused.reason, Text{});
}

}  // namespace ddprun::control
