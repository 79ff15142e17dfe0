// SPDX-License-Identifier: Apache-2.0
#include "agent/command/local_commands.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

#include <utility>

namespace ddprun::agent::command {

using Why = control::CommandRefused::Why;

void LocalCommands::handle(Event event, Instant now, std::vector<Effect>& out) {
    std::visit(
        Overloaded{
            [&](const Connected& connected) { on_connected(connected, now, out); },
            [&](const Received& received) { on_received(received, now, out); },
            [&](const Closed& closed) { callers_.erase(closed.caller); },
            [&](Answered& answered) {
                // The caller may be gone, as may one that was closed.
                if (callers_.erase(answered.caller) > 0)
                    out.push_back(Reply{answered.caller, std::move(answered.reply)});
            },
            [&](DeadlinePassed) { on_deadline(now, out); },
        },
        event);
}

void LocalCommands::on_connected(const Connected& connected, Instant now, Effects& out) {
    const auto user = connected.sender.user;
    // Callers without permission must not use up the places of others.
    if (user != user_ && user != 0)
        return refuse(
            connected.caller,
            Why::not_allowed,
            "this job belongs to user " + std::to_string(user_) +
                "; only that user and root may control it, not user " + std::to_string(user),
            out);
    if (callers_.size() >= limits::max_command_callers) {
        out.push_back(Close{connected.caller});
        return;
    }
    callers_.emplace(connected.caller, Reading{connected.sender, now + limits::command_timeout});
}

void LocalCommands::on_received(const Received& received, Instant now, Effects& out) {
    const auto found = callers_.find(received.caller);
    if (found == callers_.end()) return;
    auto* reading = std::get_if<Reading>(&found->second);
    if (reading == nullptr) return;
    const auto sender = reading->sender;
    reading->received_bytes += received.bytes.size();
    if (reading->received_bytes > limits::max_command_bytes)
        return refuse(
            received.caller,
            Why::not_understood,
            "longer than " + std::to_string(limits::max_command_bytes) + " bytes",
            out);
    reading->decoder.append(received.bytes);
    auto command = reading->decoder.next();
    if (!command)
        return refuse(received.caller, Why::not_understood, command.error().describe(), out);
    if (!*command) return;
    found->second = Waiting{
        now + limits::command_relay_timeout, std::holds_alternative<control::ShowStack>(**command)};
    out.push_back(Perform{received.caller, sender, std::move(**command)});
}

void LocalCommands::on_deadline(Instant now, Effects& out) {
    std::erase_if(callers_, [&](const auto& entry) {
        if (now < end_of(entry.second)) return false;
        if (std::holds_alternative<Reading>(entry.second))
            out.push_back(Close{entry.first});
        else
            out.push_back(Reply{
                entry.first,
                control::CommandRefused{
                    Why::not_possible, too_late(std::get<Waiting>(entry.second))}});
        return true;
    });
}

std::string LocalCommands::too_late(const Waiting& waiting) {
    const auto limit = seconds_text(limits::command_relay_timeout);
    if (waiting.is_for_stack) return "the worker could not be looked at within " + limit;
    return "the rendezvous server has not answered within " + limit +
           "; 'ddprunctl status' shows whether it has done it";
}

Instant LocalCommands::end_of(const Caller& caller) {
    return std::visit([](const auto& state) { return state.until; }, caller);
}

void LocalCommands::refuse(int caller, Why why, std::string reason, Effects& out) {
    callers_.erase(caller);
    out.push_back(Reply{caller, control::CommandRefused{why, std::move(reason)}});
}

std::optional<Instant> LocalCommands::next_deadline() const {
    std::optional<Instant> next;
    for (const auto& [number, caller] : callers_)
        next = earliest(next, end_of(caller));
    return next;
}

std::string describe(const LocalCommands::Event& event) {
    using M = LocalCommands;
    const auto of = [](int caller) { return " caller=" + std::to_string(caller); };
    return std::visit(
        Overloaded{
            [&](const M::Connected& e) {
                return "connected" + of(e.caller) + " user=" + std::to_string(e.sender.user) +
                       " pid=" + std::to_string(e.sender.pid);
            },
            [&](const M::Received& e) {
                return "received" + of(e.caller) + ": " + std::to_string(e.bytes.size()) + " bytes";
            },
            [&](const M::Closed& e) { return "closed" + of(e.caller); },
            [&](const M::Answered& e) {
                return "answered" + of(e.caller) + ": " + control::describe(e.reply);
            },
            [&](M::DeadlinePassed) { return std::string{"deadline passed"}; },
        },
        event);
}

std::string describe(const LocalCommands::Effect& effect) {
    using M = LocalCommands;
    const auto of = [](int caller) { return " caller=" + std::to_string(caller); };
    return std::visit(
        Overloaded{
            [&](const M::Perform& e) {
                return "perform" + of(e.caller) + " user=" + std::to_string(e.sender.user) +
                       " pid=" + std::to_string(e.sender.pid) + ": " + control::describe(e.command);
            },
            [&](const M::Reply& e) {
                return "reply" + of(e.caller) + ": " + control::describe(e.reply);
            },
            [&](const M::Close& e) { return "close" + of(e.caller); },
        },
        effect);
}

}  // namespace ddprun::agent::command
