// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/wire/silence.hpp"

#include "worker_sdk/src/waiting_times.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using ddprun::groups::is_silent;

TEST_CASE("a machine is silent when nothing came for long, and it was asked several times") {
    constexpr auto limit =
        static_cast<std::uint32_t>(ddprun::waiting_times::silent_machine_timeout.count());
    struct Case {
        std::uint32_t last_data_ms;
        std::uint32_t last_answer_ms;
        std::uint8_t probes;
        std::uint8_t repetitions;
        bool is_silent;
    };
    const std::vector<Case> cases{
        {0, 0, 0, 0, false},
        // No question was sent, since the connection was not used.
        {limit, limit, 0, 0, false},
        // A question was sent a moment ago, and the answer is on its way. This also happens when a
        // busy peer's window is closed, which the kernel probes rarely.
        {limit, limit, 1, 0, false},
        {limit, limit, 3, 0, true},
        {limit, limit, 0, 3, true},
        {limit - 1, limit, 9, 9, false},
        {limit, limit - 1, 9, 9, false},
        // Data arrives, so a peer that acknowledges nothing new is not silent.
        {10, 10 * limit, 0, 3, false},
    };
    for (const auto& c : cases) {
        CAPTURE(c.last_data_ms);
        CAPTURE(c.last_answer_ms);
        CAPTURE(int{c.probes});
        CAPTURE(int{c.repetitions});
        tcp_info facts{};
        facts.tcpi_last_data_recv = c.last_data_ms;
        facts.tcpi_last_ack_recv = c.last_answer_ms;
        facts.tcpi_probes = c.probes;
        facts.tcpi_retransmits = c.repetitions;
        CHECK(is_silent(facts) == c.is_silent);
    }
}
