// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/effect_log.hpp"

#include "rendezvous/base/log.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

#include <variant>

namespace ddprun::agent {

void log_effect(const Agent::Effect& effect, const AgentConfig& config) {
    std::visit(
        Overloaded{
            [&](const Agent::NoteWaiting& e) {
                log::warning(
                    "rendezvous.waited",
                    {{"endpoint", config.rendezvous.endpoint.to_string()},
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

}  // namespace ddprun::agent
