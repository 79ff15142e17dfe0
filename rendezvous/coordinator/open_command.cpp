// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/open_command.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"

#include <cstddef>
#include <utility>

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

void OpenCommand::add(OpenOrder order) {
    if (!order.end) ++open_count;
    orders.push_back(std::move(order));
}

void OpenCommand::end(OpenOrder& order, OrderEnd with) {
    order.end = std::move(with);
    --open_count;
}

OpenOrder* OpenCommand::find(const control::WorkerAnswer& answer, ConnectionId connection) {
    // An id below the first one gives a number beyond the last.
    const auto index = orders.empty() ? 0 : answer.id - orders.front().id;
    if (index >= orders.size()) return nullptr;
    auto& order = orders[index];
    const bool is_answer = order.connection == connection && !order.end && answer.what == what() &&
                           answer.ranks == order.ranks;
    return is_answer ? &order : nullptr;
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
