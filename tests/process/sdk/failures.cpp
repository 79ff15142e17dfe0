// SPDX-License-Identifier: Apache-2.0
#include "tests/process/sdk/one_call.hpp"
#include "tests/process/sdk/workers.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <chrono>
#include <string>
#include <utility>

using namespace ddprun::tests;
using namespace std::chrono_literals;

namespace {

/// Exit codes of ranks as `Workers::exit_codes` writes them.
template <class... Codes>
std::string these(Codes... codes) {
    std::string text;
    ((text += (text.empty() ? "" : " ") + std::to_string(codes)), ...);
    return text;
}

constexpr int killed = 128 + SIGKILL;

/// With shared memory, and without it.
const Workers::Variables both_ways[] = {{}, {{"SDK_WORKER_HOSTS", "a,b,c,d"}}};

bool mentions(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// All ranks end with Mismatch, and each of them names the calls of both sides.
void check_mismatch(
    const std::string& scenario,
    const std::string& one_side,
    const std::string& other_side,
    const Workers::Variables& more = {}) {
    for (auto way : both_ways) {
        way.insert(more.begin(), more.end());
        Workers workers(3, {scenario}, way);
        const auto codes = workers.exit_codes();
        CAPTURE(workers.output(0));
        CHECK(codes == these(mismatched, mismatched, mismatched));
        for (int rank = 0; rank < 3; ++rank) {
            CHECK(mentions(workers.output(rank), one_side));
            CHECK(mentions(workers.output(rank), other_side));
        }
    }
}

}  // namespace

TEST_CASE("sdk: a killed peer is reported to the others at once, by rank") {
    for (const auto& [count, way] : {std::pair{2, 0}, {4, 0}, {2, 1}, {4, 1}}) {
        Workers workers(count, {"endless"}, both_ways[way]);
        workers.await_line("ready");

        const auto before = std::chrono::steady_clock::now();
        workers.kill(1, SIGKILL);
        const auto codes = workers.exit_codes();

        // Measured: a few milliseconds. The group's timeout is ten minutes.
        CHECK(std::chrono::steady_clock::now() - before < 60s);
        CHECK(
            codes == (count == 2 ? these(peer_lost, killed)
                                 : these(peer_lost, killed, peer_lost, peer_lost)));
        for (int rank = 0; rank < count; ++rank)
            if (rank != 1) CHECK(mentions(workers.output(rank), "PeerLost: call "));
        CHECK(mentions(workers.output(0), "rank 1"));
    }
}

TEST_CASE("sdk: the death of an idle peer ends a wait for it") {
    for (const auto& way : both_ways) {
        Workers workers(3, {"last_one_idle"}, way);
        workers.await_line("ready");

        workers.kill(2, SIGKILL);

        CHECK(workers.exit_codes() == these(peer_lost, peer_lost, killed));
        CHECK(mentions(workers.output(0), "lost rank 2"));
        CHECK(mentions(workers.output(1), "lost rank 2"));
    }
}

TEST_CASE("sdk: a peer that never joins is a timeout while joining") {
    Workers workers(2, {"killed_while_joining"});
    workers.await_line("ready");

    workers.kill(0, SIGKILL);

    CHECK(workers.exit_codes() == these(killed, timed_out));
    CHECK(mentions(workers.output(1), "Timeout: rank 1 could not find its peers: store: "));
    CHECK(mentions(workers.output(1), "late ranks 0 in "));
}

TEST_CASE("sdk: a collective that exceeds the group's timeout ends the group with Timeout") {
    Workers workers(3, {"late_and_dead"});

    // One rank times out first, and the other may notice that before its own timeout.
    CHECK((workers.exit_code(0) == timed_out || workers.exit_code(2) == timed_out));
    for (const int rank : {0, 2})
        if (workers.exit_code(rank) == timed_out) CHECK(mentions(workers.output(rank), "again\n"));
}

TEST_CASE("sdk: a deadline of the program's aborts the group and releases the buffer") {
    for (const auto& way : both_ways) {
        Workers workers(2, {"own_deadline"}, way);

        CHECK(workers.exit_codes() == these(timed_out, timed_out));
        const auto& said = workers.output(0);
        CAPTURE(said);
        CHECK(mentions(said, "Timeout: call 2: all_reduce (sum) of 1000 float32: "));
        CHECK(mentions(said, way.empty() ? "rank 1 did not come" : "not done when its deadline"));
    }
}

TEST_CASE("sdk: after an abort on one rank all ranks see the group end") {
    for (const auto& way : both_ways) {
        Workers workers(3, {"aborted"}, way);

        CHECK(workers.exit_codes() == these(peer_lost, peer_lost, peer_lost));
        CHECK(mentions(workers.output(0), "aborted on this rank"));
    }
}

TEST_CASE("sdk: ranks that disagree on size, type or order get Mismatch, which names both sides") {
    check_mismatch(
        "other_count",
        "call 1: all_reduce (sum) of 1000 float32",
        "rank 1 is at call 1: all_reduce (sum) of 500 float32");
    check_mismatch(
        "other_type",
        "call 1: all_reduce (sum) of 10 float64",
        "rank 1 is at call 1: all_reduce (sum) of 10 int64");
    check_mismatch(
        "other_order", "call 1: all_reduce (sum) of 1 float32", "rank 1 is at call 1: barrier");
    check_mismatch("other_call_than_split", "call 1: split", "rank 1 is at call 1: barrier");
}

TEST_CASE("sdk: parts that one rank sends and another does not expect are a Mismatch on all") {
    check_mismatch(
        "other_parts",
        "rank 0 is at call 1: all_to_all_v, with 10 float32 for rank 1",
        "rank 1 is at call 1: all_to_all_v, with room for 9 float32 from rank 0");
}

TEST_CASE("sdk: a failure is explained at a limit of processes too") {
    check_mismatch(
        "other_order",
        "call 1: all_reduce (sum) of 1 float32",
        "rank 1 is at call 1: barrier",
        {{"SDK_WORKER_THREADS", "refused"}});
}

TEST_CASE("sdk: a thread that cannot be started is an error that names the limit") {
    for (const auto& way : both_ways) {
        Workers workers(2, {"refused_threads"}, way);
        const auto codes = workers.exit_codes();
        CAPTURE(workers.output(0));
        CHECK(codes == these(0, 0));
    }
}

TEST_CASE("sdk: another length on one rank is a Mismatch in every kind of call") {
    for (const auto& call : call_names()) {
        // A barrier has no length; a message has its own test.
        if (call == "barrier" || call == "message") continue;
        CAPTURE(call);
        Workers workers(3, {"other_count_in_call"}, {{"SDK_WORKER_CALL", call}});
        const auto codes = workers.exit_codes();
        CAPTURE(workers.output(0));
        CHECK(codes == these(mismatched, mismatched, mismatched));
        for (int rank = 0; rank < 3; ++rank) {
            CHECK(mentions(workers.output(rank), "call 1: " + call));
            CHECK(mentions(workers.output(rank), " of 10 float32"));
            CHECK(mentions(workers.output(rank), " of 20 float32"));
        }
    }
}

TEST_CASE(
    "sdk: when the two ends of a message differ, they and a third waiting rank get Mismatch") {
    check_mismatch(
        "other_message",
        "rank 0 is at message 1 from rank 0 to rank 1: 1000 float32",
        "rank 1 is at message 1 from rank 0 to rank 1: 10 float32");
}

TEST_CASE("sdk: a store that does not exist is PeerLost, with its address") {
    Workers workers(
        1,
        {"killed_while_joining"},
        {{"WORLD_SIZE", "2"},
         {"RANK", "1"},
         {"LOCAL_RANK", "1"},
         {"LOCAL_WORLD_SIZE", "2"},
         {"MASTER_PORT", "1"}});

    CHECK(workers.exit_code(0) == peer_lost);
    CHECK(mentions(workers.output(0), "127.0.0.1:1"));
}

TEST_CASE("sdk: an address that is not this machine's is an error that names it") {
    Workers workers(
        2, {"collectives"}, {{"DDPRUN_NODE_ADDR", "192.0.2.7"}, {"SDK_WORKER_HOSTS", "a,b"}});

    const auto codes = workers.exit_codes();
    CAPTURE(workers.output(0));
    CHECK(codes == these(misused, misused));
    CHECK(mentions(
        workers.output(0),
        "UsageError: DDPRUN_NODE_ADDR=192.0.2.7 is not an address of this machine"));
}

TEST_CASE("sdk: an incomplete launcher's environment is an error that names the missing variable") {
    Workers workers(1, {"collectives"}, {{"MASTER_PORT", ""}});

    CHECK(workers.exit_code(0) == misused);
    CHECK(mentions(workers.output(0), "UsageError: MASTER_PORT is not set, although RANK is"));
}
