// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/store_text.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/wire/text.hpp"

namespace ddprun::store {
namespace {

std::string number_of(ConnectionId connection) {
    return "#" + std::to_string(connection.value);
}

}  // namespace

std::string describe(const Store::Event& event) {
    return std::visit(
        Overloaded{
            [](const Store::Received& it) {
                return number_of(it.from) + " " + wire::describe(it.request);
            },
            [](const Store::Disconnected& it) { return number_of(it.from) + " disconnected"; },
            [](const Store::DeadlinePassed&) { return std::string{"deadline passed"}; },
        },
        event);
}

std::string describe(const Store::Effect& effect) {
    return std::visit(
        Overloaded{
            [](const Store::Reply& it) {
                return wire::describe(it.reply) + " -> " + number_of(it.to);
            },
            [](const Store::CloseConnection& it) {
                return "close " + number_of(it.connection) + ": " + it.reason;
            },
        },
        effect);
}

}  // namespace ddprun::store
