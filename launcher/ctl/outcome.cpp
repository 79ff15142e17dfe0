// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/outcome.hpp"

#include "launcher/ctl/ctl_table.hpp"
#include "rendezvous/base/printable.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <variant>

namespace ddprun::launcher::ctl {
namespace outcomes {
namespace {

std::string joined(const std::vector<std::string>& parts) {
    std::string text;
    for (const auto& part : parts)
        text += (text.empty() ? "" : "; ") + part;
    return text;
}

/// "node2 (pid 4711): "; empty when there is only one node.
std::string label_of(const FoundAgent& agent, std::size_t count) {
    if (count == 1) return {};
    const auto host = agent.view ? printable_line(agent.view->host) + ' ' : std::string{};
    return host + "(pid " + std::to_string(agent.socket.pid) + "): ";
}

}  // namespace
}  // namespace outcomes

Outcome miss_of(const AgentAnswer& answer) {
    using Why = control::CommandRefused::Why;
    if (!answer.reply) return {exit_code::no_answer, printable_line(answer.problem)};
    const auto* refused = std::get_if<control::CommandRefused>(&*answer.reply);
    if (refused == nullptr) return {exit_code::no_answer, "its answer is one to another question"};
    const bool is_allowed = refused->why != Why::not_allowed;
    return {
        is_allowed ? exit_code::refused : exit_code::not_allowed, printable_line(refused->reason)};
}

Outcome outcome_of(const std::vector<FoundAgent>& agents, const std::vector<AgentAnswer>& answers) {
    std::vector<std::string> done;
    std::vector<std::string> missed;
    int code = exit_code::done;
    for (std::size_t i = 0; i < answers.size(); ++i) {
        if (answers[i].is_done()) {
            auto text = printable_line(std::get<control::CommandDone>(*answers[i].reply).text);
            if (std::find(done.begin(), done.end(), text) == done.end())
                done.push_back(std::move(text));
            continue;
        }
        const auto miss = miss_of(answers[i]);
        if (missed.empty()) code = miss.exit_code;
        missed.push_back(outcomes::label_of(agents[i], agents.size()) + miss.text);
    }
    const auto& view = agents.front().view;
    auto text = (view ? printable_line(view->run_id) : std::string{"?"}) + ": ";
    if (!done.empty()) text += outcomes::joined(done) + (missed.empty() ? "" : "; not done on ");
    return {code, text + outcomes::joined(missed)};
}

}  // namespace ddprun::launcher::ctl
