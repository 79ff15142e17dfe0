// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/server_link.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/control/text.hpp"

#include <string>

namespace ddprun::agent {
namespace server_link_text {
namespace {

std::string link_text(int link) {
    return "link=" + std::to_string(link);
}

}  // namespace
}  // namespace server_link_text

std::string describe(const ServerLink::Event& event) {
    using L = ServerLink;
    using server_link_text::link_text;
    return std::visit(
        Overloaded{
            [](L::ConnectRequested) { return std::string{"connect requested"}; },
            [](const L::LinkOpened& e) {
                return "link opened " + link_text(e.link) + " as " + e.socket_addr;
            },
            [](const L::LinkClosed& e) {
                return "link closed " + link_text(e.link) + ": " +
                       std::string{describe(e.trouble)} + ": " + e.reason;
            },
            [](const L::ConnectRefused& e) { return "connect refused: " + e.reason; },
            [](const L::GreetingMade& e) {
                return "greeting made " + control::describe(e.message);
            },
            [](L::WorkersStarted) { return std::string{"workers started"}; },
            [](L::WorkersEnded) { return std::string{"workers ended"}; },
            [](L::ReconnectRequested) { return std::string{"reconnect requested"}; },
            [](L::DisconnectRequested) { return std::string{"disconnect requested"}; },
            [](L::ResultAwaited) { return std::string{"result awaited"}; },
            [](L::TimedOut) { return std::string{"timed out"}; },
            [](L::DeadlinePassed) { return std::string{"deadline passed"}; },
            [](const auto& message) { return control::describe(control::ServerMessage{message}); },
        },
        event);
}

std::string describe(const ServerLink::Effect& effect) {
    using L = ServerLink;
    using server_link_text::link_text;
    return std::visit(
        Overloaded{
            [](const L::Connect& e) { return "connect " + link_text(e.link); },
            [](const L::Send& e) {
                return "send " + link_text(e.link) + ' ' + control::describe(e.message);
            },
            [](const L::CloseLink& e) { return "close " + link_text(e.link); },
            [](const L::NoteWaiting& e) {
                return "note waiting: " + std::string{describe(e.trouble)} + ": " + e.reason;
            },
            [](const L::NoteStandby& e) { return "note standby: " + e.reason; },
            [](const L::NoteServerLost& e) { return "note server lost: " + e.reason; },
            [](L::NoteServerBack) { return std::string{"note server back"}; },
            [](L::JoinUnanswered) { return std::string{"join unanswered"}; },
            [](L::Ended) { return std::string{"ended"}; },
            [](const L::Rejected& e) { return "rejected: " + e.reason; },
            [](const L::ServerGone& e) { return "server gone: " + e.reason; },
            [](const L::FoundStale& e) { return "found stale: " + e.what; },
        },
        effect);
}

std::string_view describe(ServerLink::ConnectError trouble) {
    using ConnectError = ServerLink::ConnectError;
    switch (trouble) {
        case ConnectError::unresolved: return "name does not resolve";
        case ConnectError::refused: return "connection refused";
        case ConnectError::no_answer: return "no answer";
        case ConnectError::wrong_protocol: return "something else answers";
        case ConnectError::wrong_version: return "a server of another version answers";
        case ConnectError::lost: return "connection lost";
    }
    return "?";
}

}  // namespace ddprun::agent
