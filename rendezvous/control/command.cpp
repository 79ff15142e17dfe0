// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/command.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/command_fields.hpp"
#include "rendezvous/control/text.hpp"

#include <type_traits>

namespace ddprun::control {

std::string describe(const Command& command) {
    return std::string{type_of(command)} +
           std::visit(
               Overloaded{
                   [](ShowNode) { return std::string{}; },
                   [](const StopJob& stop) {
                       return stop.grace ? " grace=" + seconds_text(*stop.grace) : std::string{};
                   },
                   [](const SignalWorkers& order) {
                       return ' ' + signal_name(order.signal) +
                              (order.rank ? " rank=" + std::to_string(*order.rank) : "") +
                              (order.last_rank ? " to " + std::to_string(*order.last_rank) : "");
                   },
                   [](const ShowStack& order) { return " rank=" + std::to_string(order.rank); },
                   [](const DrainNodes& order) {
                       return words_of(order.nodes) + (order.is_forced ? " forced" : "");
                   },
                   [](const UndrainNodes& order) { return words_of(order.nodes); },
                   [](const ResizeJob& order) { return ' ' + describe(order.nodes); },
               },
               command);
}

std::string describe(const CommandReply& reply) {
    return std::string{type_of(reply)} + ' ' +
           std::visit(
               Overloaded{
                   [](const NodeView& view) { return view.run_id + ' ' + view.state; },
                   [](const RankStack& stack) {
                       return "rank=" + std::to_string(stack.rank) + ' ' + stack.activity;
                   },
                   [](const CommandDone& done) { return '"' + done.text + '"'; },
                   [](const CommandRefused& refused) {
                       return std::string{name_of(refused.why)} + " \"" + refused.reason + '"';
                   },
               },
               reply);
}

std::string_view name_of(CommandRefused::Why why) {
    switch (why) {
        case CommandRefused::Why::not_possible: return "not_possible";
        case CommandRefused::Why::not_allowed: return "not_allowed";
        case CommandRefused::Why::not_understood: return "not_understood";
    }
    return {};
}

std::string_view type_of(const Command& command) {
    return std::visit(
        [](const auto& value) { return type_name<std::decay_t<decltype(value)>>; }, command);
}

std::string_view type_of(const CommandReply& reply) {
    return std::visit(
        [](const auto& value) { return type_name<std::decay_t<decltype(value)>>; }, reply);
}

}  // namespace ddprun::control
