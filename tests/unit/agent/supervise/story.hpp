// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent.hpp"
#include "tests/unit/agent/supervise/machine_story.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

/// One agent on a simulated clock, and functions for the events around it.
namespace ddprun::agent::story {

using namespace std::chrono_literals;
namespace ctl = ddprun::control;

using A = Agent;
using G = WorkerGroup;
using Effects = std::vector<Agent::Effect>;
using Phase = Agent::Phase;

inline const WorkerExit success{WorkerExit::Exited{0}};
inline const WorkerExit crash{WorkerExit::Exited{3}};
inline const WorkerExit by_sigterm{WorkerExit::Killed{SIGTERM}};
inline const WorkerExit by_sigkill{WorkerExit::Killed{SIGKILL}};
inline constexpr std::uint16_t first_store = 20'001;
inline constexpr std::uint16_t second_store = 20'003;

inline AgentConfig a_config(int max_nodes = 1) {
    AgentConfig config;
    config.join.run_id = "job";
    config.rendezvous.endpoint = {"node1", 29'400};
    config.join.nodes = {1, max_nodes, 0};
    config.join.node.host = "here";
    config.join.max_restarts = 3;
    config.worker.program = "/bin/train";
    config.worker.nproc = 2;
    return config;
}

inline ctl::Node a_node() {
    ctl::Node node;
    node.nonce = *Nonce::parse("00000000000000000000000000000001");
    node.host = "here";
    node.pid = 50;
    return node;
}

inline ctl::Welcome a_welcome(bool is_hosted = true) {
    return {"inc", 30s, is_hosted};
}

inline ctl::Assignment an_assignment(int round = 0) {
    ctl::Assignment assignment;
    assignment.round = round;
    assignment.restart_count = round;
    assignment.world_size = 2;
    assignment.role_world_size = 2;
    assignment.master_addr = "10.0.0.1";
    assignment.master_port = first_store;
    return assignment;
}

inline ctl::Stop a_stop(int round = 0) {
    return {round, "rank 7 on there exited with code 1", {}, SIGTERM, 30s};
}

/// One agent, its orders, and functions for the events around it.
struct Story : test::MachineStory<Agent> {
    explicit Story(AgentConfig config = a_config())
        : MachineStory(agent),
          agent(std::move(config), a_node(), 20'009, random) {}

    Random random{7};
    Agent agent;
    int link = 0;
    /// Every notice is given at once, and not listed.
    bool gives_notices = true;

    void is(Agent::Event event) {
        MachineStory::is(std::move(event));
        give_notices();
    }
    void pass(Duration length) {
        MachineStory::pass(length);
        give_notices();
    }
    void is_after(Duration later, Agent::Event event) {
        pass(later);
        is(std::move(event));
    }
    void hears(ctl::ServerMessage message) { is(A::Received{link, std::move(message)}); }

    /// The next connection succeeds.
    void gets_through() {
        if (const auto tried = asked_for<A::Connect>(); !tried.empty()) link = tried.back().link;
        is(A::LinkOpened{link, "10.0.0.2:40000"});
    }
    void loses_server() { is(A::LinkClosed{link, A::ConnectError::lost, "closed"}); }
    /// For this long every attempt fails in this way.
    void is_turned_away(A::ConnectError error, Duration length) {
        const auto end = clock + length;
        while (clock <= end && agent.phase() != Phase::done) {
            const auto effects = asked();
            for (const auto& effect : effects)
                if (const auto* connect = std::get_if<A::Connect>(&effect))
                    is(A::LinkClosed{connect->link, error, "connect to node1:29400"});
            all_.insert(all_.end(), effects.begin(), effects.end());
            if (!agent.next_deadline()) break;
            clock = std::max(clock, *agent.next_deadline());
            if (clock <= end) is(A::DeadlinePassed{});
        }
        clock = end;
        out.insert(out.begin(), all_.begin(), all_.end());
        all_.clear();
    }

    Story& joined() {
        is(A::Began{});
        is(A::StoreOpened{first_store});
        gets_through();
        hears(a_welcome());
        return *this;
    }
    Story& running(ctl::Assignment assignment = an_assignment()) {
        joined();
        hears(std::move(assignment));
        is(A::WorkerSpawned{0, 100});
        is(A::WorkerSpawned{1, 101});
        asked();
        REQUIRE(agent.phase() == Phase::running);
        return *this;
    }
    void all_exit(const WorkerExit& exit) {
        for (int rank = 0; rank < 2; ++rank)
            if (!agent.group()->worker(rank).is_gone()) is(A::WorkerExited{rank, exit});
    }
    void has_no_leftovers() { is(A::LeftoversCounted{0}); }

    template <class T>
    std::vector<T> said() const {
        std::vector<T> found;
        for (const auto& send : asked_for<A::Send>())
            if (const auto* one = std::get_if<T>(&send.message)) found.push_back(*one);
        return found;
    }
    JobReport report() const {
        const auto ends = asked_for<A::Finish>();
        REQUIRE(ends.size() == 1);
        REQUIRE(agent.phase() == Phase::done);
        return ends.front().report;
    }

private:
    void give_notices() {
        if (!gives_notices) return;
        const auto orders = asked_for<A::GiveNotice>();
        std::erase_if(
            out, [](const auto& effect) { return std::holds_alternative<A::GiveNotice>(effect); });
        for (const auto& order : orders)
            MachineStory::is(A::NoticeGiven{order.round});
    }

    Effects all_;
};

/// Welcomed by a server that speaks this version.
inline void join_server(Story& story, int version) {
    story.is(A::Began{});
    story.is(A::StoreOpened{first_store});
    story.link = story.asked_for<A::Connect>().back().link;
    story.is(A::LinkOpened{story.link, "10.0.0.2:40000", version});
    story.hears(a_welcome());
}

/// The same with two running workers; the effects up to here are taken.
inline void run_workers(Story& story, int version = 2) {
    join_server(story, version);
    story.hears(an_assignment());
    story.is(A::WorkerSpawned{0, 100});
    story.is(A::WorkerSpawned{1, 101});
    story.asked();
}

}  // namespace ddprun::agent::story

namespace ddprun::agent {
inline doctest::String toString(const std::vector<Agent::Effect>& effects) {
    return test::lines_of(effects);
}
}  // namespace ddprun::agent
