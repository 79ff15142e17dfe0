// SPDX-License-Identifier: Apache-2.0
#include "agent/health/xid_action.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <string>

using namespace ddprun;
using namespace ddprun::agent::health;
using namespace std::chrono_literals;

namespace {

XidLine of(int code, std::string text = {}, std::string gpu = "0000:3b:00") {
    return {std::move(gpu), code, std::nullopt, std::move(text)};
}

XidAction after_change_to(const std::string& action) {
    return action_of(of(154, "GPU recovery action changed from 0x0 (None) to " + action));
}

}  // namespace

TEST_CASE("every code has its action, and a code that is not known is only shown") {
    std::map<int, XidAction> acted_on;
    for (const int code : {13, 31, 69, 94})
        acted_on[code] = XidAction::restart;
    for (const int code : {46, 62, 64, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158})
        acted_on[code] = XidAction::unfit;
    for (int code = 0; code <= 9999; ++code) {
        const auto found = acted_on.find(code);
        const auto expected = found == acted_on.end() ? XidAction::shown : found->second;
        if (action_of(of(code)) != expected) FAIL("of Xid " << code);
    }
}

TEST_CASE("Xid 154 has the driver's own verdict in its text") {
    CHECK(after_change_to("0x0 (None)") == XidAction::shown);
    CHECK(after_change_to("0x1 (GPU Reset Required)") == XidAction::unfit);
    CHECK(after_change_to("0x2 (Node Reboot Required)") == XidAction::unfit);
    CHECK(after_change_to("0x3 (Drain P2P)") == XidAction::unfit);
    CHECK(after_change_to("0x4 (Drain and Reset)") == XidAction::unfit);
    CHECK(after_change_to("0x9 (Something New)") == XidAction::shown);
    CHECK(action_of(of(154, "")) == XidAction::shown);
    // The GPU has recovered.
    const std::string back = "GPU recovery action changed from 0x1 (GPU Reset Required) to ";
    CHECK(action_of(of(154, back + "0x0 (None)")) == XidAction::shown);
}

TEST_CASE("the third restart that one GPU costs within 24 hours makes the node unfit") {
    XidHistory history;
    const Instant start{};
    CHECK(history.add(of(94), 0, start) == XidAction::restart);
    CHECK(history.add(of(94), 1, start + 1h) == XidAction::restart);
    // Another GPU has a history of its own.
    CHECK(history.add(of(94, "", "0000:5e:00"), 2, start + 2h) == XidAction::restart);
    CHECK(history.add(of(94), 2, start + 23h) == XidAction::unfit);
}

TEST_CASE("restarts of more than 24 hours ago do not count") {
    XidHistory history;
    const Instant start{};
    CHECK(history.add(of(94), 0, start) == XidAction::restart);
    CHECK(history.add(of(94), 1, start + 1h) == XidAction::restart);
    CHECK(history.add(of(94), 2, start + 24h) == XidAction::restart);
    CHECK(history.add(of(94), 3, start + 24h + 59min) == XidAction::unfit);
}

TEST_CASE("many lines of one round are one restart") {
    XidHistory history;
    const Instant start{};
    for (int line = 0; line < 100; ++line)
        CHECK(history.add(of(94), 0, start) == XidAction::restart);
    CHECK(history.add(of(94), 1, start) == XidAction::restart);
    CHECK(history.add(of(94), 2, start) == XidAction::unfit);
}

TEST_CASE("errors that a program may cause by itself make no node unfit") {
    XidHistory history;
    const Instant start{};
    for (int round = 0; round < 9; ++round)
        for (const int code : {13, 31, 69})
            CHECK(history.add(of(code), round, start) == XidAction::restart);
    CHECK(history.add(of(94), 9, start) == XidAction::restart);
}

TEST_CASE("what is only shown, or makes the node unfit, is no restart") {
    XidHistory history;
    const Instant start{};
    for (int round = 0; round < 5; ++round)
        CHECK(history.add(of(43), round, start) == XidAction::shown);
    CHECK(history.add(of(79), 5, start) == XidAction::unfit);
    CHECK(history.add(of(94), 6, start) == XidAction::restart);
}
