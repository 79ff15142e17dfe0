// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/text.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/fields.hpp"
#include "rendezvous/control/job_command_fields.hpp"

#include <array>
#include <cstdio>
#include <cstring>

namespace ddprun::control {
namespace text {
namespace {

std::string number(double value) {
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%.6g", value);
    return digits.data();
}

std::string seconds(Duration length) {
    return number(in_seconds(length)) + "s";
}

std::string error_description(int number) {
    const char* words = ::strerrordesc_np(number);
    return words == nullptr ? "error " + std::to_string(number) : words;
}

std::string of(std::string_view word, int value) {
    return std::string{word} + "=" + std::to_string(value);
}

std::string describe_join(const Join& join) {
    std::string line = join.run_id + " node=" + join.node.nonce.to_short_string() +
                       " host=" + join.node.host + " nnodes=" + describe(join.nodes) + " " +
                       of("nproc", join.nproc);
    if (join.nodes.unit) line += " " + of("unit", *join.nodes.unit);
    if (!join.node.topology.empty()) line += " topology=" + join.node.topology;
    if (join.role != "default") line += " role=" + join.role;
    if (join.node_rank) line += " " + of("node_rank", *join.node_rank);
    return line;
}

std::string describe_assignment(const Assignment& assignment) {
    return of("round", assignment.round) + " group_rank=" + std::to_string(assignment.group_rank) +
           "/" + std::to_string(assignment.group_world_size) + " " +
           of("rank_base", assignment.rank_base) + " " + of("world_size", assignment.world_size) +
           " " + of("restarts", assignment.restart_count) + " master=" + assignment.master_addr +
           ":" + std::to_string(assignment.master_port);
}

std::string describe_heartbeat(const Heartbeat& heartbeat) {
    auto line = std::to_string(heartbeat.seq);
    if (const auto& wait = heartbeat.wait)
        line += " " + of("round", wait->round) + " " + std::to_string(wait->client_count) +
                " wait for \"" + wait->key + "\" since " + seconds(wait->age) +
                (wait->has_timed_out ? " timed out" : "");
    if (const auto& clients = heartbeat.clients)
        line += " " + of("round", clients->round) +
                " sockets=" + std::to_string(clients->sockets.size()) +
                " unconnected=" + std::to_string(clients->unconnected.size()) +
                " ended=" + std::to_string(clients->ended.size());
    if (const auto& progress = heartbeat.progress) {
        line += " " + of("round", progress->round);
        for (const auto& rank : progress->ranks)
            line += " [" + std::to_string(rank.local_rank) + " " +
                    control::describe(rank.progress) + "]";
    }
    if (const auto& node = heartbeat.sites) {
        line += " " + of("round", node->round);
        for (const auto& site : node->sites)
            line += " [" + std::to_string(site.local_ranks.size()) + " " +
                    std::string{name_of(site.activity)} + " " + site.place + " for " +
                    seconds(site.age) + "]";
    }
    return line;
}

std::string describe_save_report(const SaveReport& report) {
    auto line = of("round", report.round) + " " + of("ballot", report.ballot);
    if (report.asked) line += " asked=" + std::to_string(*report.asked);
    line += " " + of("saving", report.saving) + " " + of("saved", report.saved);
    if (report.declined > 0) line += " " + of("declined", report.declined);
    if (report.ended > 0) line += " " + of("ended", report.ended);
    if (report.waiting) line += " " + of("waiting", *report.waiting);
    return line + (report.is_silent ? " silent" : "");
}

std::string describe_voters(const Voters& voters) {
    auto line = "version=" + std::to_string(voters.set.version);
    for (const auto& place : voters.set.voters)
        line += ' ' + place.address;
    for (const auto& place : voters.set.former)
        line += " former=" + place.address;
    return line;
}

}  // namespace
}  // namespace text

std::string words_of(const std::vector<std::string>& nodes) {
    std::string words;
    for (const auto& node : nodes)
        words += ' ' + node;
    return words;
}

std::string describe(const AgentMessage& message) {
    using namespace text;
    const auto rest = std::visit(
        Overloaded{
            [](const Join& join) { return describe_join(join); },
            [](const Resume& resume) {
                auto line =
                    describe_join(resume.join) + " state=" + std::string{name_of(resume.state)};
                if (resume.assignment) line += " " + of("round", resume.assignment->round);
                return line + (resume.save ? " " + describe(*resume.save) : std::string{});
            },
            [](const Ready& ready) {
                return of("round", ready.round) +
                       (ready.kept.empty() ? std::string{}
                                           : " kept=" + std::to_string(ready.kept.size()));
            },
            [](const Started& started) {
                return of("round", started.round) +
                       (started.reached > 0 ? " " + of("reached", started.reached) : std::string{});
            },
            [](const Succeeded& succeeded) { return of("round", succeeded.round); },
            [](const Failed& failed) {
                auto line = of("round", failed.round) + " age=" + seconds(failed.age) + " ";
                if (failed.kind) line += std::string{name_of(*failed.kind)} + " ";
                return line + describe(failed.failure);
            },
            [](const Heartbeat& heartbeat) { return describe_heartbeat(heartbeat); },
            [](const NeighbourHeard& heard) {
                auto line = heard.node.to_short_string() + " " + of("round", heard.round);
                if (heard.heard_ago) line += " heard " + seconds(*heard.heard_ago) + " ago";
                return line + (heard.has_confirmed ? " confirmed" : "");
            },
            [](const Leave& leave) {
                return (leave.signal != 0 ? signal_name(leave.signal) + " " : std::string{}) +
                       (leave.ends_job ? "ends the job " : "") + "\"" + leave.reason + "\"";
            },
            [](const Notice& notice) {
                return signal_name(notice.signal) + " left=" + seconds(notice.left) +
                       (notice.asked ? " asked=" + std::to_string(*notice.asked) : std::string{}) +
                       (notice.ends_job ? " ends the job" : "") + " \"" + notice.reason + "\"";
            },
            [](const SaveReport& report) { return describe_save_report(report); },
            [](const Drain& drain) {
                return of("id", drain.id) + words_of(drain.nodes) +
                       (drain.is_forced ? " forced" : "");
            },
            [](const Undrain& undrain) { return of("id", undrain.id) + words_of(undrain.nodes); },
            [](const Resize& resize) { return of("id", resize.id) + ' ' + describe(resize.nodes); },
            [](const WorkerAnswer& answer) {
                return "id=" + std::to_string(answer.id) + " " + std::string{name_of(answer.what)} +
                       " " + describe(answer.ranks) + (answer.is_done ? " done" : " refused") +
                       " \"" + answer.text + "\"";
            },
            [](const JobCommand& command) { return describe(command); },
            [](const Claim& claim) {
                return "job=" + claim.run_id + ' ' + describe_voters(claim.voters);
            },
        },
        message);
    return std::string{type_of(message)} + " " + rest;
}

std::string describe(const ServerMessage& message) {
    using namespace text;
    const auto rest = std::visit(
        Overloaded{
            [](const Hello&) { return std::string{}; },
            [](const Welcome& welcome) {
                return "incarnation=" + welcome.incarnation.substr(0, 8) +
                       " lease=" + seconds(welcome.lease) + (welcome.hosted ? " hosted" : "");
            },
            [](const Refused& refused) {
                return "\"" + refused.reason + "\"" +
                       (refused.retry ? " retry=" + seconds(*refused.retry) : std::string{});
            },
            [](const Resumed&) { return std::string{}; },
            [](const Lost& lost) { return "\"" + lost.reason + "\""; },
            [](const Resized& resized) {
                return of("count", resized.count) + ' ' + describe(resized.nodes);
            },
            [](const Drained& drained) {
                auto text = of("count", drained.count);
                for (const auto& host : drained.hosts)
                    text += ' ' + host.host;
                return text;
            },
            [](const Voters& voters) { return describe_voters(voters); },
            [](const Assignment& assignment) { return describe_assignment(assignment); },
            [](const Stop& stop) {
                return of("round", stop.round) + " " + signal_name(stop.how) +
                       " grace=" + seconds(stop.grace) + " \"" + stop.reason + "\"";
            },
            [](const Standby& standby) {
                const auto missing =
                    standby.missing > 0 ? of("missing", standby.missing) + " " : std::string{};
                return missing + "\"" + standby.reason + "\"";
            },
            [](const HeartbeatAck& ack) {
                return std::to_string(ack.seq) +
                       (ack.clients_of ? " " + of("clients_of", *ack.clients_of) : std::string{});
            },
            [](const Ask& ask) {
                return ask.node.to_short_string() + " " + of("round", ask.round) +
                       (ask.must_confirm ? " to confirm" : "");
            },
            [](const SaveAt& order) {
                return of("round", order.round) + " " + describe(order.save);
            },
            [](const NoticeOver& over) { return "\"" + over.reason + "\""; },
            [](const DrainAnswer& answer) {
                return of("id", answer.id) + (answer.is_done ? " done" : " refused") + " \"" +
                       answer.text + "\"";
            },
            [](const DrainOrder& order) { return "\"" + order.reason + "\""; },
            [](const WorkerOrder& order) {
                return "id=" + std::to_string(order.id) + " " + of("round", order.round) + " " +
                       std::string{name_of(order.what)} +
                       (order.signal != 0 ? " " + signal_name(order.signal) : std::string{}) + " " +
                       describe(order.ranks);
            },
            [](const HangFound& found) {
                auto line = of("round", found.round) + " \"" + found.headline + "\"";
                for (const int local_rank : found.killed)
                    line += " " + of("kill", local_rank);
                return line;
            },
            [](const JobResult& result) {
                auto line =
                    std::string{name_of(result.outcome)} + " " + of("exit_code", result.exit_code);
                if (result.root_cause) line += " " + describe(*result.root_cause);
                return line;
            },
            [](const RankReport& report) {
                return of("rank", report.rank) + " " +
                       (report.stack ? report.stack->activity : "\"" + report.problem + "\"");
            },
            [](const JobCommandAnswer& answer) {
                return std::string{name_of(answer.outcome)} + " \"" + answer.text + "\" " +
                       of("jobs", static_cast<int>(answer.jobs.size()));
            },
            [](const ProtocolError& error) { return "\"" + error.reason + "\""; },
        },
        message);
    return std::string{type_of(message)} + (rest.empty() ? "" : " ") + rest;
}

std::string describe(const WorkerEnd& end) {
    switch (end.kind) {
        case WorkerEnd::Kind::exited: return "exited with code " + std::to_string(end.value);
        case WorkerEnd::Kind::killed:
            return "killed by " + signal_name(end.value) +
                   (end.core_dumped ? " (core dumped)" : "");
        case WorkerEnd::Kind::not_executed:
            return "could not be started: " + text::error_description(end.value);
    }
    contradiction("a worker's end of no kind", __FILE__, __LINE__);
}

std::string describe(const WorkerEnd& end, int pid) {
    const bool has_run = pid != 0 || end.kind != WorkerEnd::Kind::exited;
    return has_run ? describe(end) : "could not be started";
}

std::string describe(const WorkerFailure& failure) {
    return "rank " + std::to_string(failure.rank) +
           (failure.pid != 0 ? " (pid " + std::to_string(failure.pid) + ")" : std::string{}) + " " +
           describe(failure.end, failure.pid);
}

std::string describe(const Cause& cause) {
    return std::string{name_of(cause.kind)} + " \"" + cause.reason + "\"" +
           (cause.host.empty() ? std::string{} : " host=" + cause.host) +
           (cause.round < 0 ? std::string{} : " round=" + std::to_string(cause.round));
}

std::string describe(const WorkProgress& progress) {
    std::string line;
    if (progress.step) line = "step " + std::to_string(*progress.step);
    if (progress.phase == WorkPhase::none) return line;
    return line + (line.empty() ? "in phase " : ", in phase ") +
           std::string{name_of(progress.phase)};
}

std::string describe(const SavePoint& save) {
    return "ballot=" + std::to_string(save.ballot) + " step=" + std::to_string(save.step) + " " +
           std::string{name_of(save.state)};
}

std::string describe(const NodeRange& range) {
    auto line = std::to_string(range.min);
    if (range.max != range.min) line += ":" + std::to_string(range.max);
    if (range.spares > 0) line += "+" + std::to_string(range.spares);
    return line;
}

std::string describe(const RankRange& ranks) {
    if (ranks.first == ranks.last) return "rank " + std::to_string(ranks.first);
    return "ranks " + std::to_string(ranks.first) + " to " + std::to_string(ranks.last);
}

std::string describe(const JobCommand& command) {
    return std::string{name_of(command.what)} +
           (command.run_id.empty() ? std::string{} : " job=" + command.run_id) +
           (command.signal != 0 ? ' ' + signal_name(command.signal) : std::string{}) +
           (command.ranks ? ' ' + describe(*command.ranks) : std::string{}) +
           words_of(command.nodes) + (command.is_forced ? " forced" : "") +
           (command.range ? ' ' + describe(*command.range) : std::string{}) +
           (command.grace ? " grace=" + seconds_text(*command.grace) : std::string{});
}

std::string_view name_of(JobCommand::What what) {
    switch (what) {
        case JobCommand::What::show: return "show";
        case JobCommand::What::stop: return "stop";
        case JobCommand::What::drain: return "drain";
        case JobCommand::What::undrain: return "undrain";
        case JobCommand::What::resize: return "resize";
        case JobCommand::What::signal: return "signal";
        case JobCommand::What::stacks: return "stacks";
    }
    return {};
}

std::string_view name_of(JobCommandAnswer::Outcome outcome) {
    switch (outcome) {
        case JobCommandAnswer::Outcome::done: return "done";
        case JobCommandAnswer::Outcome::not_possible: return "not_possible";
        case JobCommandAnswer::Outcome::not_allowed: return "not_allowed";
        case JobCommandAnswer::Outcome::no_such_job: return "no_such_job";
        case JobCommandAnswer::Outcome::not_answered: return "not_answered";
    }
    return {};
}

std::string_view name_of(WorkerOrder::What what) {
    switch (what) {
        case WorkerOrder::What::signal: return "signal";
        case WorkerOrder::What::stack: return "stack";
    }
    return {};
}

std::string_view name_of(NodeState state) {
    switch (state) {
        case NodeState::starting: return "starting";
        case NodeState::running: return "running";
        case NodeState::stopping: return "stopping";
        case NodeState::ready: return "ready";
        case NodeState::succeeded: return "succeeded";
    }
    return {};
}

std::string_view name_of(Outcome outcome) {
    switch (outcome) {
        case Outcome::succeeded: return "succeeded";
        case Outcome::failed: return "failed";
        case Outcome::cancelled: return "cancelled";
    }
    return {};
}

std::string_view name_of(Cause::Kind kind) {
    switch (kind) {
        case Cause::Kind::worker_failed: return "worker_failed";
        case Cause::Kind::not_executable: return "not_executable";
        case Cause::Kind::store_unreachable: return "store_unreachable";
        case Cause::Kind::node_lost: return "node_lost";
        case Cause::Kind::node_left: return "node_left";
        case Cause::Kind::late_node: return "late_node";
        case Cause::Kind::no_node_joined: return "nobody_joined";
        case Cause::Kind::crash_loop: return "crash_loop";
        case Cause::Kind::cancelled: return "cancelled";
        case Cause::Kind::superseded: return "superseded";
        case Cause::Kind::resized: return "resized";
    }
    return {};
}

std::string_view name_of(WorkerEnd::Kind kind) {
    switch (kind) {
        case WorkerEnd::Kind::exited: return "exited";
        case WorkerEnd::Kind::killed: return "killed";
        case WorkerEnd::Kind::not_executed: return "not_executed";
    }
    return {};
}

std::string_view name_of(WorkerFailure::FromErrorFile from_error_file) {
    switch (from_error_file) {
        case WorkerFailure::FromErrorFile::none: return "none";
        case WorkerFailure::FromErrorFile::message: return "message";
        case WorkerFailure::FromErrorFile::message_and_details: return "message_and_details";
    }
    return {};
}

std::string_view name_of(GoodputPhase phase) {
    switch (phase) {
        case GoodputPhase::productive: return "productive";
        case GoodputPhase::redone: return "redone";
        case GoodputPhase::saving: return "saving";
        case GoodputPhase::hung: return "hung";
        case GoodputPhase::first_step: return "first_step";
        case GoodputPhase::starting: return "starting";
        case GoodputPhase::forming: return "forming";
        case GoodputPhase::draining: return "draining";
        case GoodputPhase::down: return "down";
        case GoodputPhase::unmeasured: return "unmeasured";
    }
    return {};
}

std::string_view name_of(WorkPhase phase) {
    switch (phase) {
        case WorkPhase::none: return "none";
        case WorkPhase::start: return "start";
        case WorkPhase::train: return "train";
        case WorkPhase::eval: return "eval";
        case WorkPhase::save: return "save";
        case WorkPhase::compile: return "compile";
        case WorkPhase::data: return "data";
    }
    return {};
}

std::string_view name_of(Activity activity) {
    switch (activity) {
        case Activity::unknown: return "unknown";
        case Activity::moving: return "moving";
        case Activity::busy: return "busy";
        case Activity::waits_for_peers: return "waits_for_peers";
        case Activity::waits_for_store: return "waits_for_store";
        case Activity::connects: return "connects";
        case Activity::blocked: return "blocked";
        case Activity::stopped: return "stopped";
        case Activity::in_kernel: return "in_kernel";
        case Activity::traced: return "traced";
        case Activity::ended: return "ended";
    }
    return {};
}

std::string_view name_of(Recovery recovery) {
    switch (recovery) {
        case Recovery::automatic: return "auto";
        case Recovery::restart: return "restart";
    }
    return {};
}

std::string_view name_of(OnHang what) {
    switch (what) {
        case OnHang::report: return "report";
        case OnHang::restart: return "restart";
    }
    return {};
}

std::string_view name_of(Failover failover) {
    switch (failover) {
        case Failover::off: return "off";
        case Failover::nodes: return "nodes";
    }
    return {};
}

std::string_view name_of(SaveState state) {
    switch (state) {
        case SaveState::proposed: return "proposed";
        case SaveState::cancelled: return "cancelled";
        case SaveState::agreed: return "agreed";
        case SaveState::saved: return "saved";
        case SaveState::ending: return "ending";
    }
    return {};
}

std::string_view name_of(LateNodes policy) {
    switch (policy) {
        case LateNodes::restart: return "restart";
        case LateNodes::at_restart: return "at-restart";
        case LateNodes::never: return "never";
    }
    return {};
}

std::string_view name_of(StoreAccess access) {
    switch (access) {
        case StoreAccess::direct: return "direct";
        case StoreAccess::members: return "members";
    }
    return {};
}

std::string_view type_of(const AgentMessage& message) {
    return std::visit([]<class T>(const T&) { return type_name<T>; }, message);
}

std::string_view type_of(const ServerMessage& message) {
    return std::visit([]<class T>(const T&) { return type_name<T>; }, message);
}

}  // namespace ddprun::control
