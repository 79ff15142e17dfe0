// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/text.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/coordinator/coordinator.hpp"

namespace ddprun::coordinator {
namespace text {
namespace {

std::string name(ConnectionId connection) {
    return "#" + std::to_string(connection.value);
}

}  // namespace
}  // namespace text

std::string describe(const Coordinator::Event& event) {
    return std::visit(
        Overloaded{
            [](const Coordinator::Connected& connected) {
                return text::name(connected.connection) + " connected from " +
                       connected.peer_socket;
            },
            [](const Coordinator::Received& received) {
                return text::name(received.connection) + " " + control::describe(received.message);
            },
            [](const Coordinator::Disconnected& gone) {
                return text::name(gone.connection) + " disconnected";
            },
            [](const Coordinator::Interrupted& interrupted) {
                return "interrupted by " + signal_name(interrupted.signal) + " \"" +
                       interrupted.reason + "\"";
            },
            [](const Coordinator::Led& led) {
                return "leads in epoch " + std::to_string(led.epoch);
            },
            [](const Coordinator::Recorded& recorded) {
                return "recorded " + std::to_string(recorded.number);
            },
            [](const Coordinator::VotersChanged& changed) {
                return "job " + changed.run_id + " has " +
                       control::describe(control::ServerMessage{changed.voters});
            },
            [](const Coordinator::WitnessChanged& changed) {
                return changed.witness ? "the witness is " + changed.witness->address
                                       : std::string{"the witness does not answer"};
            },
            [](const Coordinator::Deposed& deposed) {
                return "deposed \"" + deposed.reason + "\"";
            },
            [](const Coordinator::DeadlinePassed&) { return std::string{"deadline passed"}; },
        },
        event);
}

std::string describe(const Effect& effect) {
    return std::visit(
        Overloaded{
            [](const Send& send) {
                return "to " + text::name(send.connection) + " " + control::describe(send.message);
            },
            [](const Close& close) {
                return "close " + text::name(close.connection) + " \"" + close.reason + "\"";
            },
            [](const Changed& changed) {
                return "job " + changed.run_id + " " + changed.state + " \"" + changed.reason +
                       "\"";
            },
            [](const Ranked& ranked) {
                return "job " + ranked.run_id + " round " + std::to_string(ranked.round) +
                       " group rank " + std::to_string(ranked.group_rank) + " is " + ranked.node +
                       " \"" + ranked.reason + "\"";
            },
            [](const Waiting& waiting) {
                return "job " + waiting.run_id + " round " + std::to_string(waiting.round) +
                       " ranks " + waiting.ranks + " wait for \"" + waiting.key + "\" since " +
                       seconds_text(waiting.age) + ": " + waiting.missing;
            },
            [](const Hung& hung) {
                auto line = "job " + hung.run_id + " round " + std::to_string(hung.round) +
                            " hangs: " + hung.reason;
                for (const auto& row : hung.rows)
                    line += "; " + row;
                return line;
            },
            [](const Commanded& commanded) {
                return commanded.command + " " + std::string{control::name_of(commanded.outcome)} +
                       " by " + commanded.by + " \"" + commanded.text + "\"";
            },
            [](const Record& record) { return "record " + std::to_string(record.number); },
            [](const ChangeVoters& change) {
                auto line = "job " + change.run_id + " is to have voters";
                for (const auto& voter : change.voters)
                    line += ' ' + voter.address;
                return line;
            },
            [](const SteppedDown& stepped_down) {
                return "stepped down \"" + stepped_down.reason + "\"";
            },
        },
        effect);
}

}  // namespace ddprun::coordinator
