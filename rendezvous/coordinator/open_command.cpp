// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/open_command.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"

#include <algorithm>
#include <cstddef>

namespace ddprun::coordinator {
namespace open_command {
namespace {

using Outcome = control::JobCommandAnswer::Outcome;

constexpr std::size_t most_orders_named = 8;

std::string listed(const std::vector<std::string>& texts) {
    return short_list(texts, {most_orders_named, "; "});
}

}  // namespace
}  // namespace open_command

control::WorkerOrder::What OpenCommand::what() const {
    return commanded.command.what == control::JobCommand::What::stacks
               ? control::WorkerOrder::What::stack
               : control::WorkerOrder::What::signal;
}

bool OpenCommand::is_complete() const {
    return std::all_of(
        orders.begin(), orders.end(), [](const OpenOrder& order) { return order.end.has_value(); });
}

OpenOrder* OpenCommand::find(const control::WorkerAnswer& answer, ConnectionId connection) {
    const auto found = std::find_if(orders.begin(), orders.end(), [&](const OpenOrder& order) {
        return order.id == answer.id && order.connection == connection && !order.end;
    });
    const bool is_answer =
        found != orders.end() && answer.what == what() && answer.ranks == found->ranks;
    return is_answer ? &*found : nullptr;
}

control::JobCommandAnswer OpenCommand::answer() const {
    using namespace open_command;
    std::vector<std::string> done;
    std::vector<std::string> missed;
    auto outcome = Outcome::done;
    for (const auto& order : orders) {
        if (order.end && order.end->kind == OrderEnd::Kind::done) {
            done.push_back(order.end->text);
            continue;
        }
        const bool is_refused = order.end && order.end->kind == OrderEnd::Kind::refused;
        missed.push_back(
            control::describe(order.ranks) + " on " + order.host + ": " +
            (is_refused ? order.end->text : missing_text(order)));
        if (!is_refused)
            outcome = Outcome::not_answered;
        else if (outcome == Outcome::done)
            outcome = Outcome::not_possible;
    }
    // The reports have what was seen.
    auto text = what() == control::WorkerOrder::What::stack
                    ? std::to_string(done.size()) + " of " + std::to_string(orders.size()) +
                          " workers were looked at"
                    : listed(done);
    if (!missed.empty()) text += (text.empty() ? "" : "; not done for ") + listed(missed);
    return {outcome, std::move(text)};
}

std::string missing_text(const OpenOrder& order) {
    if (order.end) return order.end->text;
    return "the agent has not answered within " + seconds_text(limits::worker_order_timeout) +
           ", and may still do it";
}

}  // namespace ddprun::coordinator
