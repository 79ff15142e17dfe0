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

/// What an agent does about a command: decided from what it knows, and performed by its shell.
namespace ddprun::agent::command {

/// The server that the node has last connected to.
struct LastServer {
    /// Empty: none.
    std::string endpoint;
    /// Empty: it needs none.
    std::string page_token;
};

control::NodeView view_of(
    const Agent& agent, const AgentConfig& config, const LastServer& server, Instant now);

/// What a decision depends on beyond the view.
struct NodeFacts {
    Agent::Fate fate = Agent::Fate::open;
    bool has_workers = false;
    /// The server has this node: what it sends reaches the others.
    bool is_connected = false;
    Duration grace{};
    /// Of the protocol that this node and the server speak.
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

/// The reply is what is seen of it.
struct StackOrder {
    int rank;
    int local_rank;
    bool operator==(const StackOrder&) const = default;
};

/// To the server, which decides and answers.
struct PassOn {
    bool operator==(const PassOn&) const = default;
};

struct Decision {
    /// Of a signal: where it reaches all that are meant. Of what is passed on, and of a stack: none
    /// yet.
    std::optional<control::CommandReply> reply;
    std::variant<std::monostate, StopOrder, SignalOrder, StackOrder, PassOn> order = {};
};

Decision decide(
    const control::Command& command, const control::NodeView& view, const NodeFacts& facts);

/// `reached` are the local ranks of the workers that got the signal.
control::CommandReply reply_to_signal(
    int signal, const std::vector<int>& reached, const control::NodeView& view);

/// `sample` is the second one; `site` is what both show.
control::CommandReply reply_to_stack(
    int rank, const health::Sample& sample, const health::Site& site);

/// "ddprunctl (user alice, pid 4711 on node1)"; `user_name` may be empty.
std::string describe_sender(
    const Sender& sender, const std::string& user_name, const std::string& host);

}  // namespace ddprun::agent::command
