// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/effect_log.hpp"

#include "rendezvous/base/log.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/printable.hpp"
#include "rendezvous/base/text.hpp"

#include <string>
#include <variant>

namespace ddprun::agent {

void log_effect(const Agent::Effect& effect, const AgentConfig& config) {
    std::visit(
        Overloaded{
            [&](const Agent::NoteWaiting& e) {
                log::warning(
                    "rendezvous.waited",
                    {{"endpoint", config.rendezvous.typed_endpoint()},
                     {"problem", describe(e.error)},
                     {"waited_s", static_cast<int>(in_seconds(e.waited))},
                     {"timeout_s",
                      static_cast<int>(
                          in_seconds(e.timeout.value_or(config.join.settings.join_timeout)))},
                     {"detail", e.reason}});
            },
            [&](const Agent::NoteStandby& e) {
                log::warning("node.stood_by", {{"reason", e.reason}});
            },
            [&](const Agent::NoteMissing& e) {
                log::warning("nodes.missing", {{"reason", e.reason}, {"next_step", e.next_step}});
            },
            [&](const Agent::NoteInterrupt& e) {
                log::warning(
                    "job.interrupted",
                    {{"effect",
                      "the workers have " + seconds_text(e.grace) +
                          " to end; a second Ctrl-C kills them at once"}});
            },
            [&](const Agent::NoteStopping& e) {
                log::warning("round.stopped", {{"round", e.round}, {"reason", e.reason}});
            },
            [&](const Agent::NoteNotice& e) {
                log::warning(
                    "preemption.noticed",
                    {{"by", e.reason}, {"time_to_save", seconds_text(e.left)}});
            },
            [&](const Agent::NoteSave& e) {
                log::warning("save.agreed", {{"step", std::to_string(e.step)}});
            },
            [&](const Agent::NoteNoticeOver& e) {
                log::warning("preemption.over", {{"reason", e.reason}});
            },
            [&](const Agent::NoteDrained& e) {
                log::warning("node.drained", {{"reason", e.reason}});
            },
            [&](const Agent::NoteUnfit& e) {
                log::error("node.unfit", {{"reason", e.reason}});
            },
            [&](const Agent::NoteHealthUnknown& e) {
                log::warning("health.unknown", {{"reason", e.reason}});
            },
            [&](const Agent::NoteXid& e) {
                log::warning("gpu.failed", {{"error", e.what}, {"effect", e.effect}});
            },
            [&](const Agent::NoteHang& e) {
                log::warning("job.hung", {{"round", e.round}, {"reason", e.headline}});
            },
            [&](const Agent::NoteServerLost& e) {
                log::warning("rendezvous.lost", {{"reason", e.reason}});
            },
            [&](Agent::NoteServerBack) { log::warning("rendezvous.resumed"); },
            [&](const Agent::NoteStale& e) {
                log::debug("message.dropped", {{"what", e.what}});
            },
            [&](const Agent::NoteStuck& e) {
                log::error(
                    "workers.stuck",
                    {{"workers", e.local_ranks.size()},
                     {"others", e.leftover_count},
                     {"reason", "SIGKILL has no effect: they hang inside the kernel"}});
            },
            [](const auto&) {},
        },
        effect);
}

std::string hang_text(const Agent::NoteHang& hang) {
    std::string text = "ddprun: " + printable_line(hang.headline) + "\n";
    for (const auto& row : hang.rows)
        text += "  " + printable_line(row) + "\n";
    return text;
}

void log_round_started(const Agent::SpawnWorkers& order, int max_restarts) {
    const auto& assignment = order.assignment;
    const auto level = assignment.restart_count > 0 ? log::Level::warning : log::Level::info;
    // After a refill of the restart budget the count may exceed the allowed number, and the line
    // leaves that number out.
    auto restart = std::to_string(assignment.restart_count);
    if (assignment.restart_count <= max_restarts) restart += " of " + std::to_string(max_restarts);
    log::write(
        level,
        "round.started",
        {{"round", assignment.round},
         {"nodes", assignment.group_world_size},
         {"ranks", assignment.world_size},
         {"restart", restart},
         {"first_rank", assignment.rank_base}});
    if (!assignment.state) return;
    log::write(
        level,
        "round.recovered",
        {{"round", assignment.round},
         {"kept", static_cast<int>(order.kept.size())},
         {"state_of_rank", assignment.state->rank},
         {"state_step", std::to_string(assignment.state->step)}});
}

void log_attachment(const Attachment& attachment, Duration grace) {
    const std::string limits_text = "--shutdown-timeout is " + seconds_text(grace) +
                                    ", PyTorch's NCCL watchdogs are off unless set";
    if (!attachment.has_terminal) {
        log::info("rank.attached", {{"rank", attachment.rank}, {"time_limits", limits_text}});
        return;
    }
    log::warning(
        "rank.attached",
        {{"rank", attachment.rank},
         {"ctrl_c", "goes to the rank; two within 1 s stop the job"},
         {"time_limits", limits_text}});
}

}  // namespace ddprun::agent
