// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/coordinator.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// A coordinator and nodes that are only names: their messages go in, all effects come out as
/// lines. The clock is simulated; `pass` stops at every deadline.
namespace ddprun::coordinator {

using Lines = std::vector<std::string>;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

class Story {
public:
    using Tweak = std::function<void(control::Join&)>;

    /// `terms` changes the join of all nodes of the story.
    explicit Story(std::string nnodes, int restarts = 3, Tweak terms = {});

    /// The server lives inside a `ddprun` of the story's job.
    void is_hosted();

    /// Nodes vote about the leader, whose process is that of node `a`.
    void has_voters();

    /// A tenant has at most so many nodes.
    void bounds_tenants(std::size_t nodes);

    /// The server is replaced by a new one; no node is connected.
    void restart_server();

    // Actions of nodes. A node has one connection at a time, made by `join` or `resume`.
    void join(const std::string& node, const Tweak& tweak = {});
    void resume(
        const std::string& node,
        control::NodeState state,
        const std::function<void(control::Resume&)>& tweak = {});
    void say(const std::string& node, control::AgentMessage message);
    /// What its workers show of a round, as part of a heartbeat.
    void show_progress(
        const std::string& node, int round, std::vector<control::RankProgress> ranks);
    void drop(const std::string& node);
    /// From now on its connections have these addresses for the server.
    void lives_at(const std::string& node, std::string peer_addr, std::string server_addr);
    /// From now on its connections have proved the secret of this tenant.
    void is_of_tenant(const std::string& node, std::string tenant);
    void interrupt(int signal);
    /// The record of the job's leader has these voters.
    void voters_changed(control::Voters voters);
    void witness_changed(std::optional<control::VoterPlace> witness);
    /// `ddprunctl` on another machine sends a command, on a connection of this name.
    void command(
        const std::string& caller, control::JobCommand command, bool has_proved_secret = true);

    // The same for several nodes.
    void started(const std::string& nodes, int round = 0);
    /// Started once more, with so many neighbours in reach.
    void reached(const std::string& nodes, int count, int round = 0);
    void succeeded(const std::string& nodes, int round = 0);
    void ready(const std::string& nodes, int round = 0);
    void failed(const std::string& node, int round = 0, const Tweak& = {});
    void failed_with(
        const std::string& node,
        int round,
        Duration age,
        const std::function<void(control::WorkerFailure&)>& tweak);
    void leave(const std::string& node, int signal);
    /// Joined, assigned, started; the lines so far are dropped.
    void run(const std::string& nodes);

    /// Time passes; the nodes in `alive` send a heartbeat each second.
    void pass(Duration length, const std::string& alive = {});
    /// Time passes and the server does not run.
    void doze(Duration length);

    /// All effects since the last call as lines, heartbeat acks apart.
    Lines output();
    /// The last assignment of a node.
    const control::Assignment& assignment(const std::string& node) const;
    /// The token in its last welcome.
    std::optional<Nonce> token(const std::string& node) const { return tokens_.at(node); }
    /// The last stop of a node.
    const control::Stop& stop(const std::string& node) const { return stops_.at(node); }
    /// The last result of a node, in words; "" if none.
    std::string result(const std::string& node) const;
    /// The whole result. Requires: the node got one.
    const control::JobResult& whole_result(const std::string& node) const {
        return results_.at(node);
    }
    JobStatus status() const;
    TimelineStatus timeline(int first_round = 0) const;

    Coordinator& coordinator() { return *coordinator_; }
    ConnectionId connection(const std::string& node) const { return connections_.at(node); }
    void post(Coordinator::Event event);

    control::Join join_of(const std::string& node, const Tweak& tweak = {}) const;

private:
    struct Place {
        std::string peer_addr;
        std::string server_addr;
    };
    ConnectionId connect(const std::string& node);
    Place place_of(const std::string& node) const;
    std::string name_of(ConnectionId connection) const;
    void note(const Coordinator::Effect& effect);

    control::Join terms_;
    Coordinator::Options options_;
    std::optional<Coordinator> coordinator_;
    Instant now_{};
    std::uint64_t next_connection_ = 1;
    std::map<std::string, ConnectionId> connections_;
    std::map<ConnectionId, std::string> names_;
    std::map<std::string, Place> places_;
    std::map<std::string, std::string> tenants_;
    std::map<std::string, control::Assignment> assignments_;
    std::map<std::string, std::optional<Nonce>> tokens_;
    std::map<std::string, control::Stop> stops_;
    std::map<std::string, control::JobResult> results_;
    std::uint64_t next_seq_ = 0;
    bool proves_secret_ = false;
    Lines lines_;
};

/// "a b c" as words.
std::vector<std::string> words(const std::string& text);
/// A node's nonce is made of its name.
Nonce nonce_of(const std::string& node);

/// A node that saves by agreement and is drained by command.
void speaks_version_2(control::Join& join);
/// A job of such nodes, with two ranks on each.
Story job_of(const std::string& nnodes, const std::string& nodes, int restarts = 3);
/// Two nodes of a job for one to three; the last call for a third node is over.
Story job_of_two_with_room();

}  // namespace ddprun::coordinator

namespace doctest {
template <>
struct StringMaker<ddprun::coordinator::Lines> {
    static String convert(const ddprun::coordinator::Lines& lines) {
        std::string text;
        for (const auto& line : lines)
            text += "\n  " + line;
        return text.c_str();
    }
};
}  // namespace doctest
