// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/field_kinds.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/control/voter_set_fields.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

/// The one definition of every control message: `fields(io, message)` names each field once, in the
/// order on the wire. Where that name differs from the member's, the member was renamed later, and
/// the protocol keeps the old name. The codec's writer, its reader and the test of FORMAT.md all
/// call it. A new field needs a line here and a row in FORMAT.md. What an `io` is, and the kinds of
/// values: field_kinds.hpp.
namespace ddprun::control {

inline constexpr std::int64_t biggest_int = std::numeric_limits<std::int32_t>::max();
inline constexpr Whole any_count{0, biggest_int};
inline constexpr Whole round_number{0, biggest_int};
inline constexpr Whole small_count{0, 1'000'000};
inline constexpr Whole node_count{1, limits::max_nodes_per_job};
inline constexpr Whole node_place{0, limits::max_nodes_per_job - 1};
inline constexpr Whole worker_count{1, limits::max_workers_per_node};
inline constexpr Whole worker_place{0, limits::max_workers_per_node - 1};
inline constexpr Whole signal_number{0, 64};
inline constexpr Whole some_signal{1, signal_number.most};
inline constexpr Whole exit_code{0, 255};
inline constexpr Whole ballot_number{1, 255};
inline constexpr Whole worker_total{0, limits::max_workers_per_node};
inline constexpr Whole unix_time{0, 253'402'300'799};
inline constexpr Whole port{0, 65'535};
inline constexpr Whole open_port{1, 65'535};
inline constexpr Name not_empty{1};
inline constexpr std::size_t most_neighbours = 16;
inline constexpr std::size_t most_versions = 64;

// ---- parts --------------------------------------------------------------------------------------

template <class Io>
void fields(Io& io, Like<Io, Node>& node) {
    io("nonce", node.nonce);
    io("host", node.host, Name{});
    io("pid", node.pid, any_count);
    io("user", node.user, Whole{0, std::numeric_limits<std::uint32_t>::max()});
    io.optional("topology", node.topology, Name{});
}

template <class Io>
void fields(Io& io, Like<Io, NodeRange>& range) {
    // Read first, since the unit bounds the next numbers.
    io.optional("unit", range.unit, Whole{2, node_count.most});
    const int unit = std::max(range.unit.value_or(1), 1);  // a wrong unit has been reported already
    io("min", range.min, Whole{node_count.least, node_count.most, unit});
    io("max", range.max, Whole{range.min, node_count.most, unit});
    io("spares", range.spares, Whole{0, node_count.most});
}

template <class Io>
void fields(Io& io, Like<Io, Settings>& settings) {
    io("join_timeout", settings.join_timeout);
    io.optional("replacement_timeout", settings.replacement_timeout);
    io("last_call_timeout", settings.last_call_timeout);
    io("lease", settings.lease);
    io("grace", settings.grace);
    io("late_nodes", settings.late_nodes);
    io("max_losses", settings.max_losses, small_count);
    io("static", settings.is_static);
    io.optional("store_access", settings.store_access);
    io.optional("hang_after", settings.hang_after);
    io.optional("on_hang", settings.on_hang);
    io.optional("failover", settings.failover);
    io.optional("recovery", settings.recovery);
    io.optional("recovery_timeout", settings.recovery_timeout);
    io.optional("health_timeout", settings.health_timeout);
    io("restart_delay", settings.restart.shortest_delay);
    io("longest_restart_delay", settings.restart.longest_delay);
    io("restart_refill", settings.restart.refill_after);
    io("no_restart_on", settings.restart.final_codes, List{limits::max_final_codes, exit_code});
    io.optional(
        "rounds_without_progress",
        settings.restart.rounds_without_progress,
        Whole{2, small_count.most});
}

template <class Io>
void fields(Io& io, Like<Io, WorkerEnd>& end) {
    io("kind", end.kind);
    io("value", end.value, Whole{std::numeric_limits<std::int32_t>::min(), biggest_int});
    io("core_dumped", end.core_dumped);
}

template <class Io>
void fields(Io& io, Like<Io, WorkProgress>& progress) {
    io.optional("step", progress.step);
    io.optional("phase", progress.phase);
}

template <class Io>
void fields(Io& io, Like<Io, Goodput>& goodput) {
    for_each_phase([&](GoodputPhase phase) {
        // A string literal, so it ends with a null character.
        io.optional(name_of(phase).data(), goodput.spent[static_cast<std::size_t>(phase)]);
    });
}

template <class Io>
void fields(Io& io, Like<Io, WorkerFailure>& failure) {
    io("rank", failure.rank, any_count);
    io("local_rank", failure.local_rank, worker_place);
    io("pid", failure.pid, any_count);
    io("end", failure.end);
    io("is_consequence", failure.is_secondary);
    io.optional("unix_time", failure.unix_time, unix_time);
    io("message", failure.message, Text{});
    io.optional("why", failure.why, Text{});
    io.optional("error_file", failure.error_file, Text{});
    io.optional("log_file", failure.log_file, Text{});
    io("details", failure.details, Text{});
    io.optional("own_words", failure.from_error_file);
    io.optional("progress", failure.progress);
    io.optional("hung", failure.has_hung);
}

template <class Io>
void fields(Io& io, Like<Io, EndedWorker>& worker) {
    io("rank", worker.rank, any_count);
    io("local_rank", worker.local_rank, worker_place);
    io("pid", worker.pid, any_count);
    io("host", worker.host, Name{});
    io("end", worker.end);
}

template <class Io>
void fields(Io& io, Like<Io, Cause>& cause) {
    io("kind", cause.kind);
    io("host", cause.host, Name{});
    io("round", cause.round, Whole{-1, biggest_int});
    io("signal", cause.signal, signal_number);
    io("reason", cause.reason, Text{});
    io.optional("worker", cause.worker);
}

template <class Io>
void fields(Io& io, Like<Io, Neighbour>& neighbour) {
    io("nonce", neighbour.nonce);
    io("addr", neighbour.addr, Name{});
    io("peer_port", neighbour.peer_port, port);
}

template <class Io>
void fields(Io& io, Like<Io, StoreWait>& wait) {
    io("round", wait.round, round_number);
    io("key", wait.key, Text{});
    io("more_keys", wait.more_keys);
    io("age", wait.age);
    io("timed_out", wait.has_timed_out);
    io("client_count", wait.client_count);
    io("sockets", wait.sockets, List{limits::max_reported_sockets, Name{}});
}

template <class Io>
void fields(Io& io, Like<Io, StoreSocket>& socket) {
    io("local_rank", socket.local_rank, worker_place);
    io("socket", socket.socket, Name{});
}

template <class Io>
void fields(Io& io, Like<Io, StoreClients>& clients) {
    io("round", clients.round, round_number);
    io("sockets", clients.sockets, List{limits::max_reported_sockets});
    io("unconnected", clients.unconnected, List{limits::max_workers_per_node, worker_place});
    io("ended", clients.ended, List{limits::max_workers_per_node, worker_place});
}

template <class Io>
void fields(Io& io, Like<Io, RankProgress>& rank) {
    io("local_rank", rank.local_rank, worker_place);
    io("progress", rank.progress);
}

template <class Io>
void fields(Io& io, Like<Io, NodeProgress>& node) {
    io("round", node.round, round_number);
    io("ranks", node.ranks, List{limits::max_reported_progress});
    io.optional("age", node.age);
}

template <class Io>
void fields(Io& io, Like<Io, Site>& site) {
    io("activity", site.activity);
    io("place", site.place, Text{});
    io("detail", site.detail, Text{});
    io("age", site.age);
    io("local_ranks", site.local_ranks, List{limits::max_workers_per_node, worker_place});
}

template <class Io>
void fields(Io& io, Like<Io, NodeSites>& node) {
    io("round", node.round, round_number);
    io("sites", node.sites, List{limits::max_reported_sites});
}

template <class Io>
void fields(Io& io, Like<Io, SavePoint>& save) {
    io("ballot", save.ballot, ballot_number);
    io("step", save.step);
    io("state", save.state);
}

template <class Io>
void fields(Io& io, Like<Io, SaveReport>& report) {
    io("round", report.round, round_number);
    io("ballot", report.ballot, ballot_number);
    io.optional("asked", report.asked);
    io("saving", report.saving, worker_total);
    io("saved", report.saved, worker_total);
    io("declined", report.declined, worker_total);
    io("ended", report.ended, worker_total);
    io.optional("least", report.least);
    io.optional("most", report.most);
    io.optional("waiting", report.waiting, worker_place);
    io("silent", report.is_silent);
}

// ---- agent to server ----------------------------------------------------------------------------

template <>
inline constexpr std::string_view type_name<Join> = "join";
template <>
inline constexpr std::size_t most_bytes<Join> = limits::max_join_frame_bytes;
template <class Io>
void fields(Io& io, Like<Io, Join>& join) {
    io("run_id", join.run_id, not_empty);
    io.optional("incarnation", join.incarnation, not_empty);
    io("node", join.node);
    io("nnodes", join.nodes);
    io("nproc", join.nproc, worker_count);
    io("role", join.role, Name{});
    io.optional("node_rank", join.node_rank, node_place);
    io("addr", join.addr, Name{});
    io("socket_addr", join.socket_addr, Name{});
    io("store_port", join.store_port, port);
    io("peer_port", join.peer_port, port);
    io("max_restarts", join.max_restarts, small_count);
    io("settings", join.settings);
    io.optional("versions", join.versions, List{most_versions, any_count});
    io.optional("epoch", join.epoch);
    io.optional("hosting", join.is_hosting);
    io.optional("record", join.record);
}

template <>
inline constexpr std::string_view type_name<Resized> = "resized";
template <class Io>
void fields(Io& io, Like<Io, Resized>& resized) {
    io("count", resized.count, Whole{1, limits::max_resizes});
    io("nnodes", resized.nodes);
}

template <class Io>
void fields(Io& io, Like<Io, DrainedHost>& drained) {
    io("host", drained.host, Name{});
    io("reason", drained.reason, Text{});
}

template <>
inline constexpr std::string_view type_name<Drained> = "drained";
template <class Io>
void fields(Io& io, Like<Io, Drained>& drained) {
    io("count", drained.count, Whole{1, limits::max_drain_changes});
    io("hosts", drained.hosts, List{limits::max_kept_drained_hosts});
}

template <class Io>
void fields(Io& io, Like<Io, KeptWorker>& kept) {
    io("local_rank", kept.local_rank, Whole{0, worker_count.most - 1});
    io.optional("committed", kept.committed);
    io.optional("clean", kept.is_clean);
}

template <class Io>
void fields(Io& io, Like<Io, StateSource>& source) {
    io("rank", source.rank, any_count);
    io("step", source.step);
}

template <>
inline constexpr std::string_view type_name<Assignment> = "assignment";
template <class Io>
void fields(Io& io, Like<Io, Assignment>& assignment) {
    io("round", assignment.round, round_number);
    io("restart_count", assignment.restart_count, small_count);
    io("group_rank", assignment.group_rank, node_place);
    io("group_world_size", assignment.group_world_size, node_count);
    io("rank_base", assignment.rank_base, any_count);
    io("world_size", assignment.world_size, Whole{1, biggest_int});
    io("role_rank_base", assignment.role_rank_base, any_count);
    io("role_world_size", assignment.role_world_size, Whole{1, biggest_int});
    io("master_addr", assignment.master_addr, not_empty);
    io("master_port", assignment.master_port, open_port);
    io("neighbours", assignment.neighbours, List{most_neighbours});
    io.optional("done_step", assignment.done_step);
    io.optional("state", assignment.state);
}

template <>
inline constexpr std::string_view type_name<Resume> = "resume";
template <class Io>
void fields(Io& io, Like<Io, Resume>& resume) {
    io("join", resume.join);
    io("incarnation", resume.incarnation, not_empty);
    io.optional("assignment", resume.assignment);
    io("spent", resume.spent, small_count);
    io("state", resume.state);
    io.optional("failure", resume.failure);
    io.optional("age", resume.age);
    io.optional("kind", resume.kind);
    io("reached", resume.reached, Whole{0, node_count.most});
    io.optional("token", resume.token);
    io.optional("save", resume.save);
    io.optional("save_report", resume.save_report);
    io.optional("goodput", resume.goodput);
    io.optional("goodput_age", resume.goodput_age);
    io.optional("resized", resume.resized);
    io.optional("drained", resume.drained);
    io.optional("kept", resume.kept, List{limits::max_workers_per_node});
    io.optional("recoverable", resume.is_recoverable);
}

template <>
inline constexpr std::string_view type_name<Ready> = "ready";
template <class Io>
void fields(Io& io, Like<Io, Ready>& ready) {
    io("round", ready.round, round_number);
    io("store_port", ready.store_port, open_port);
    io("nproc", ready.nproc, worker_count);
    io.optional("kept", ready.kept, List{limits::max_workers_per_node});
}

template <>
inline constexpr std::string_view type_name<Started> = "started";
template <class Io>
void fields(Io& io, Like<Io, Started>& started) {
    io("round", started.round, round_number);
    io("reached", started.reached, Whole{0, node_count.most});
    io.optional("recoverable", started.is_recoverable);
}

template <>
inline constexpr std::string_view type_name<Succeeded> = "succeeded";
template <class Io>
void fields(Io& io, Like<Io, Succeeded>& succeeded) {
    io("round", succeeded.round, round_number);
}

template <>
inline constexpr std::string_view type_name<Failed> = "failed";
template <class Io>
void fields(Io& io, Like<Io, Failed>& failed) {
    io("round", failed.round, round_number);
    io("age", failed.age);
    io.optional("kind", failed.kind);
    io("failure", failed.failure);
}

template <>
inline constexpr std::string_view type_name<Heartbeat> = "heartbeat";
template <class Io>
void fields(Io& io, Like<Io, Heartbeat>& heartbeat) {
    io("seq", heartbeat.seq);
    io.optional("wait", heartbeat.wait);
    io.optional("clients", heartbeat.clients);
    io.optional("progress", heartbeat.progress);
    io.optional("sites", heartbeat.sites);
}

template <>
inline constexpr std::string_view type_name<Voters> = "voters";
template <class Io>
void fields(Io& io, Like<Io, Voters>& voters) {
    io("lineage", voters.lineage);
    io("ballot", voters.ballot);
    io("set", voters.set);
}

template <>
inline constexpr std::string_view type_name<Claim> = "claim";
template <class Io>
void fields(Io& io, Like<Io, Claim>& claim) {
    io("run_id", claim.run_id, not_empty);
    io("voters", claim.voters);
}

template <>
inline constexpr std::string_view type_name<NeighbourHeard> = "neighbour";
template <class Io>
void fields(Io& io, Like<Io, NeighbourHeard>& heard) {
    io("node", heard.node);
    io("round", heard.round, round_number);
    io.optional("heard_ago", heard.heard_ago);
    io("disowned", heard.has_confirmed);
}

template <>
inline constexpr std::string_view type_name<Leave> = "leave";
template <class Io>
void fields(Io& io, Like<Io, Leave>& leave) {
    io("reason", leave.reason, Text{});
    io("signal", leave.signal, signal_number);
    io.optional("ends_job", leave.ends_job);
    io.optional("grace", leave.grace);
}

template <>
inline constexpr std::string_view type_name<Notice> = "notice";
template <class Io>
void fields(Io& io, Like<Io, Notice>& notice) {
    io("reason", notice.reason, Text{});
    io("signal", notice.signal, signal_number);
    io("left", notice.left);
    io.optional("asked", notice.asked);
    io("ends_job", notice.ends_job);
    io.optional("round", notice.round, round_number);
}

template <>
inline constexpr std::string_view type_name<SaveReport> = "save_report";

// ---- server to agent ----------------------------------------------------------------------------

template <>
inline constexpr std::string_view type_name<Hello> = "hello";
template <class Io>
void fields(Io& io, Like<Io, Hello>& hello) {
    io("versions", hello.versions, List{most_versions, any_count});
}

template <>
inline constexpr std::string_view type_name<Welcome> = "welcome";
template <class Io>
void fields(Io& io, Like<Io, Welcome>& welcome) {
    io("incarnation", welcome.incarnation, not_empty);
    io("lease", welcome.lease);
    io("hosted", welcome.hosted);
    io.optional("token", welcome.token);
    io.optional("epoch", welcome.epoch);
    io.optional("record", welcome.record);
}

template <>
inline constexpr std::string_view type_name<Refused> = "refused";
template <class Io>
void fields(Io& io, Like<Io, Refused>& refused) {
    io("reason", refused.reason, Text{});
    io.optional("retry", refused.retry);
    io.optional("needs_secret", refused.needs_secret);
    io.optional("does_not_lead", refused.does_not_lead);
}

template <>
inline constexpr std::string_view type_name<Resumed> = "resumed";
template <class Io>
void fields(Io& io, Like<Io, Resumed>& resumed) {
    io.optional("epoch", resumed.epoch);
    io.optional("record", resumed.record);
}

template <>
inline constexpr std::string_view type_name<Lost> = "lost";
template <class Io>
void fields(Io& io, Like<Io, Lost>& lost) {
    io("reason", lost.reason, Text{});
}

template <>
inline constexpr std::string_view type_name<Stop> = "stop";
template <class Io>
void fields(Io& io, Like<Io, Stop>& stop) {
    io("round", stop.round, round_number);
    io("reason", stop.reason, Text{});
    io("how", stop.how, Whole{1, signal_number.most});
    io("grace", stop.grace);
    io("first_cause", stop.root_cause);
    io.optional("keeps", stop.keeps);
}

template <>
inline constexpr std::string_view type_name<Standby> = "standby";
template <class Io>
void fields(Io& io, Like<Io, Standby>& standby) {
    io("reason", standby.reason, Text{});
    io.optional("missing", standby.missing, Whole{0, node_count.most});
}

template <>
inline constexpr std::string_view type_name<HeartbeatAck> = "heartbeat_ack";
template <class Io>
void fields(Io& io, Like<Io, HeartbeatAck>& ack) {
    io("seq", ack.seq);
    io.optional("clients_of", ack.clients_of, round_number);
    io.optional("goodput", ack.goodput);
}

template <>
inline constexpr std::string_view type_name<Ask> = "ask";
template <class Io>
void fields(Io& io, Like<Io, Ask>& ask) {
    io("node", ask.node);
    io("round", ask.round, round_number);
    io("disowns", ask.must_confirm);
}

template <>
inline constexpr std::string_view type_name<SaveAt> = "save_at";
template <class Io>
void fields(Io& io, Like<Io, SaveAt>& order) {
    io("round", order.round, round_number);
    io("save", order.save);
    io("left", order.left);
}

template <>
inline constexpr std::string_view type_name<NoticeOver> = "notice_over";
template <class Io>
void fields(Io& io, Like<Io, NoticeOver>& over) {
    io("reason", over.reason, Text{});
}

template <>
inline constexpr std::string_view type_name<DrainAnswer> = "drain_answer";
template <class Io>
void fields(Io& io, Like<Io, DrainAnswer>& answer) {
    io("id", answer.id, any_count);
    io("done", answer.is_done);
    io("text", answer.text, Text{});
}

template <>
inline constexpr std::string_view type_name<DrainOrder> = "drain_order";
template <class Io>
void fields(Io& io, Like<Io, DrainOrder>& order) {
    io("reason", order.reason, Text{});
}

template <>
inline constexpr std::string_view type_name<HangFound> = "hang_found";
template <class Io>
void fields(Io& io, Like<Io, HangFound>& found) {
    io("round", found.round, round_number);
    io("headline", found.headline, Text{});
    io("rows", found.rows, List{limits::max_hang_rows, Text{}});
    io("killed", found.killed, List{limits::max_workers_per_node, worker_place});
}

template <>
inline constexpr std::string_view type_name<JobResult> = "result";
template <class Io>
void fields(Io& io, Like<Io, JobResult>& result) {
    io("outcome", result.outcome);
    io("exit_code", result.exit_code, exit_code);
    io.optional("first_cause", result.root_cause);
    io.optional("consequences", result.secondary_failures, List{limits::max_reported_failures});
    io.optional("goodput", result.goodput);
}

template <>
inline constexpr std::string_view type_name<ProtocolError> = "error";
template <class Io>
void fields(Io& io, Like<Io, ProtocolError>& error) {
    io("reason", error.reason, Text{});
}

}  // namespace ddprun::control
