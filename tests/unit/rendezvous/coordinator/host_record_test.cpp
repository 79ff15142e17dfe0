// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/host_record.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using namespace std::chrono_literals;

namespace {

Duration pause_after(HostRecord& record, int round, Instant now) {
    record.note_gone("b", round, now);
    const auto until = record.stands_by_until("b", now);
    return until ? *until - now : Duration{};
}

}  // namespace

TEST_CASE("a host that goes once comes back at once, and longer later each time after") {
    HostRecord record;
    Instant now{};
    int round = 0;

    CHECK(pause_after(record, round++, now) == 0s);
    for (const Duration pause : std::vector<Duration>{30s, 60s, 120s, 240s, 480s, 600s, 600s}) {
        now += 10min;
        CHECK(pause_after(record, round++, now) == pause);
        now += pause;
    }
    CHECK_FALSE(record.stands_by_until("b", now));
    CHECK_FALSE(record.stands_by_until("c", now));
}

TEST_CASE("a host that stayed for more than ten minutes starts with a clean record") {
    HostRecord record;
    record.note_gone("b", 0, Instant{});

    CHECK(pause_after(record, 1, Instant{} + 601s) == 0s);
    CHECK(pause_after(record, 2, Instant{} + 602s) == 30s);
}

TEST_CASE("several nodes of a host that go in one round are one") {
    HostRecord record;
    record.note_gone("b", 0, Instant{});

    CHECK(pause_after(record, 0, Instant{} + 1s) == 0s);
}
