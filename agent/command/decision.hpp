// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/command/local_commands.hpp"
#include "agent/health/classify.hpp"
#include "agent/supervise/agent.hpp"
#include "rendezvous/control/command.hpp"

#include <optional>
#include <string>
#include <variant>
#include <vector>

/// Decides from the node's state what an agent does about a command; its shell performs the
/// decision.
namespace ddprun::agent::command {

/// The server to which the node connected last.
struct LastServer {
    /// Empty: none.
    std::string endpoint;
    /// Empty: the server needs no token.
    std::string page_token;
};

control::NodeView view_of(
    const Agent& agent, const AgentConfig& config, const LastServer& server, Instant now);

/// What a decision depends on in addition to the view.
struct NodeFacts {
    Agent::Fate fate = Agent::Fate::open;
    bool has_workers = false;
    /// The server has this node as a member, so its messages reach the others.
    bool is_connected = false;
    Duration grace{};
    /// The version of the protocol that this node and the server speak.
    int server_version = 0;
};

struct StopOrder {
    std::optional<Duration> grace;
    bool operator==(const StopOrder&) const = default;
};
struct SignalOrder {
    int signal;
    std::vector<int> local_ranks;
    bool operator==(const SignalOrder&) const = default;
};

/// The stack of the worker is the reply.
struct StackOrder {
    int rank;
    int local_rank;
    bool operator==(const StackOrder&) const = default;
};

/// Forwards the command to the server, which decides and answers.
struct PassOn {
    bool operator==(const PassOn&) const = default;
};

struct Decision {
    /// For a signal: the reply if the signal reaches all its targets. None for forwarded commands
    /// and stacks, whose reply follows.
    std::optional<control::CommandReply> reply;
    std::variant<std::monostate, StopOrder, SignalOrder, StackOrder, PassOn> order = {};
};

Decision decide(
    const control::Command& command, const control::NodeView& view, const NodeFacts& facts);

/// `reached`: the local ranks of the workers that got the signal.
control::CommandReply reply_to_signal(
    int signal, const std::vector<int>& reached, const control::NodeView& view);

/// `sample` is the second sample; `site` is common to both.
control::CommandReply reply_to_stack(
    int rank, const health::Sample& sample, const health::Site& site);

/// "ddprunctl (user alice, pid 4711 on node1)"; `user_name` may be empty.
std::string describe_sender(
    const Sender& sender, const std::string& user_name, const std::string& host);

}  // namespace ddprun::agent::command
