// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/ctl/selection.hpp"
#include "rendezvous/control/command.hpp"

#include <optional>
#include <string>
#include <vector>

/// The result of a command.
namespace ddprun::launcher::ctl {

struct AgentAnswer {
    /// None: there was no reply in time.
    std::optional<control::CommandReply> reply = std::nullopt;
    std::string problem = {};

    bool is_done() const { return reply && std::holds_alternative<control::CommandDone>(*reply); }
};

struct Outcome {
    int exit_code;
    std::string text;

    bool operator==(const Outcome&) const = default;
};

/// The outcome when the reply has another type than expected.
Outcome miss_of(const AgentAnswer& answer);

/// The outcome of a command to several nodes of one job: what was done, and where it failed and
/// why. It is done when every node has done it. Requires: an answer of each agent, and at least
/// one.
Outcome outcome_of(const std::vector<FoundAgent>& agents, const std::vector<AgentAnswer>& answers);

}  // namespace ddprun::launcher::ctl
