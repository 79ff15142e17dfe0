// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/supervise/story.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::agent::story;
using namespace std::chrono_literals;
namespace ctl = ddprun::control;

namespace {

/// No client waits for long any more.
ctl::StoreWait an_end(int round) {
    ctl::StoreWait wait;
    wait.round = round;
    return wait;
}

}  // namespace

TEST_CASE("long waits of the round's store are reported while this node has workers") {
    Story story;
    story.running(an_assignment(3));
    const ctl::StoreWait wait{0, "pg/0", 1, 31s, false, 2, {"10.0.0.2:5", "10.0.0.3:5"}};

    story.is(A::StoreWaited{second_store, wait});
    CHECK(story.asked().empty());
    story.is(A::StoreWaited{first_store, wait});
    auto reported = wait;
    reported.round = 3;
    CHECK(
        story.asked() == Effects{
                             A::Send{1, ctl::Heartbeat{0, reported}},
                             A::FindStoreClients{3, first_store, {100, 101}, {}}});

    // Its end.
    story.is(A::StoreWaited{first_store, {}});
    CHECK(story.asked() == Effects{A::Send{1, ctl::Heartbeat{0, an_end(3)}}});
}

TEST_CASE("only the first node of a round reports the waits of its store") {
    Story story;
    auto assignment = an_assignment();
    assignment.group_rank = 1;
    story.running(assignment);

    story.is(A::StoreWaited{first_store, {}});

    CHECK(story.asked().empty());
}

TEST_CASE("asked for its workers' connections, a node looks for those that run") {
    Story story;
    story.running();

    story.hears(ctl::HeartbeatAck{0, 0});
    CHECK(story.asked() == Effects{A::FindStoreClients{0, first_store, {100, 101}, {}}});
    story.is(A::StoreClientsFound{{0, {{0, "10.0.0.2:5"}}, {1}, {}}});
    CHECK(
        story.said<ctl::Heartbeat>() ==
        std::vector{
            ctl::Heartbeat{0, std::nullopt, ctl::StoreClients{0, {{0, "10.0.0.2:5"}}, {1}, {}}}});
}

TEST_CASE("a worker that ended is not looked for, and one that is being stopped has not ended") {
    Story story;
    story.running();
    story.is(A::WorkerExited{0, success});
    story.hears(ctl::HeartbeatAck{0, 0});
    CHECK(story.asked() == Effects{A::FindStoreClients{0, first_store, {0, 101}, {0}}});

    story.hears(a_stop());
    story.is(A::WorkerExited{1, by_sigterm});
    story.asked();
    story.is(A::StoreClientsFound{{0, {}, {}, {0}}});
    CHECK(
        story.said<ctl::Heartbeat>() ==
        std::vector{ctl::Heartbeat{0, std::nullopt, ctl::StoreClients{0, {}, {}, {0}}}});
}

TEST_CASE("nothing is looked for among workers that are being stopped") {
    Story story;
    story.running();
    story.hears(a_stop());
    story.asked();

    story.hears(ctl::HeartbeatAck{0, 0});

    CHECK(story.asked_for<A::FindStoreClients>().empty());
}

TEST_CASE("connections of another round are neither looked for nor reported") {
    Story story;
    story.running();

    story.hears(ctl::HeartbeatAck{0, 4});
    CHECK(story.asked_for<A::FindStoreClients>().empty());
    story.is(A::StoreClientsFound{{4, {}, {1}, {}}});
    CHECK(story.said<ctl::Heartbeat>().empty());
}
