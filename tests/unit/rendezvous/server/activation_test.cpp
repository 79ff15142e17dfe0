// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/activation.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

namespace ddprun::server {
namespace {

using Environment = std::map<std::string, std::string>;

constexpr int self = 412;

std::variant<Activation, std::string> read(const Environment& environment) {
    return read_activation(
        [&](const char* name) -> std::optional<std::string> {
            const auto found = environment.find(name);
            if (found == environment.end()) return std::nullopt;
            return found->second;
        },
        self);
}

Activation handed(const Environment& environment) {
    const auto result = read(environment);
    REQUIRE(std::holds_alternative<Activation>(result));
    return std::get<Activation>(result);
}

std::string refusal(const Environment& environment) {
    const auto result = read(environment);
    const auto* text = std::get_if<std::string>(&result);
    return text != nullptr ? *text : "";
}

}  // namespace

TEST_CASE("inherited sockets are the descriptors behind the standard streams") {
    CHECK(handed({{"LISTEN_PID", "412"}, {"LISTEN_FDS", "1"}}).sockets == std::vector{3});
    CHECK(
        handed({{"LISTEN_PID", "412"}, {"LISTEN_FDS", "3"}, {"LISTEN_FDNAMES", "a:b:c"}}).sockets ==
        std::vector{3, 4, 5});
    CHECK(handed({{"NOTIFY_SOCKET", "/run/notify"}}) == Activation{{}, "/run/notify"});
    CHECK(handed({}) == Activation{});
}

TEST_CASE("variables that were set for another process hand over nothing") {
    CHECK(handed({{"LISTEN_PID", "411"}, {"LISTEN_FDS", "2"}}) == Activation{});
    CHECK(handed({{"LISTEN_FDS", "2"}}) == Activation{});
    CHECK(handed({{"LISTEN_PID", "412"}}) == Activation{});
    // The sockets, even if invalid, are not for this process.
    CHECK(handed({{"LISTEN_PID", "411"}, {"LISTEN_FDS", "many"}}) == Activation{});
}

TEST_CASE("a variable that is not understood is named with its value and what is accepted") {
    const auto fds = [](const std::string& value) {
        return refusal({{"LISTEN_PID", "412"}, {"LISTEN_FDS", value}});
    };
    CHECK(fds("two") == "LISTEN_FDS: 'two': accepted is a number of sockets from 1 to 64");
    for (const auto* value : {"", "0", "-1", "65", "1x", " 1", "99999999999999999999"})
        CHECK(fds(value).starts_with(std::string{"LISTEN_FDS: '"} + value + "': accepted is "));
    CHECK(
        refusal({{"LISTEN_PID", "self"}, {"LISTEN_FDS", "1"}}) ==
        "LISTEN_PID: 'self': accepted is the number of a process");
}

}  // namespace ddprun::server
