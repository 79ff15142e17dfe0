// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/outcome.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher::ctl;

namespace {

using Why = control::CommandRefused::Why;

FoundAgent a_node(int number) {
    control::NodeView view;
    view.run_id = "job";
    view.host = "node" + std::to_string(number);
    return {{"ddprunctl/1/1000/" + std::to_string(number), number}, 1000, view};
}

AgentAnswer done(const std::string& text) {
    return {control::CommandDone{text}};
}

AgentAnswer refused(const std::string& reason, Why why = Why::not_possible) {
    return {control::CommandRefused{why, reason}};
}

const AgentAnswer none{std::nullopt, "no answer"};

}  // namespace

TEST_CASE("a command is done where every node has done it, and the others are named") {
    struct Case {
        std::vector<AgentAnswer> answers;
        Outcome outcome;
    };
    const std::vector<Case> cases{
        {{done("yes")}, {0, "job: yes"}},
        {{done("yes"), done("yes")}, {0, "job: yes"}},
        {{done("a"), done("b")}, {0, "job: a; b"}},
        {{refused("no worker")}, {1, "job: no worker"}},
        {{refused("of another", Why::not_allowed)}, {4, "job: of another"}},
        {{none}, {5, "job: no answer"}},
        {{done("a"), none}, {5, "job: a; not done on node2 (pid 2): no answer"}},
        {{refused("no worker"), done("b")}, {1, "job: b; not done on node1 (pid 1): no worker"}},
        {{none, refused("no\nworker")},
         {5, "job: node1 (pid 1): no answer; node2 (pid 2): no worker"}},
        {{{control::NodeView{}}}, {5, "job: its answer is one to another question"}},
    };
    for (const auto& [answers, outcome] : cases) {
        std::vector<FoundAgent> agents;
        for (std::size_t i = 0; i < answers.size(); ++i)
            agents.push_back(a_node(static_cast<int>(i) + 1));
        const auto& text = outcome.text;  // CAPTURE takes no structured binding under clang
        CAPTURE(text);
        CHECK(outcome_of(agents, answers) == outcome);
    }
}
