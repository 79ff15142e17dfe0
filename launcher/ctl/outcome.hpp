// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/ctl/selection.hpp"
#include "rendezvous/control/command.hpp"

#include <optional>
#include <string>
#include <vector>

/// What became of a command.
namespace ddprun::launcher::ctl {

struct AgentAnswer {
    /// Empty: there was none in time.
    std::optional<control::CommandReply> reply = std::nullopt;
    std::string problem = {};

    bool is_done() const { return reply && std::holds_alternative<control::CommandDone>(*reply); }
};

struct Outcome {
    int exit_code;
    std::string text;

    bool operator==(const Outcome&) const = default;
};

/// Of an answer that is not what was asked for.
Outcome miss_of(const AgentAnswer& answer);

/// Of a command to several nodes of one job: what was done, and where it was not, and why. It is
/// done where every node has done it. Requires: an answer of each agent, and at least one.
Outcome outcome_of(const std::vector<FoundAgent>& agents, const std::vector<AgentAnswer>& answers);

}  // namespace ddprun::launcher::ctl
