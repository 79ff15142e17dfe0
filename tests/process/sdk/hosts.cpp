// SPDX-License-Identifier: Apache-2.0
// Several hosts: ranks of one machine with different host ids.
#include "ddprun/error.hpp"
#include "ddprun/process_group.hpp"
#include "ddprun/store.hpp"
#include "ddprun/world.hpp"
#include "tests/process/sdk/one_call.hpp"
#include "tests/process/sdk/workers.hpp"
#include "worker_sdk/src/store_names.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <string>

using namespace ddprun::tests;
using namespace std::chrono_literals;

namespace {

ddprun::Store store_of(const Workers& workers) {
    ddprun::World world;
    world.world_size = 2;
    world.master_addr = "127.0.0.1";
    world.master_port = workers.store_port();
    return ddprun::Store::connect(world, 30s);
}

/// Writes a death like an agent. The ranks' incarnation must be "life".
void write_death(const Workers& workers, int rank) {
    auto store = store_of(workers);
    const auto key = ddprun::store_names::deaths("life", 0, 0);
    // Agents write it only where the key exists.
    CHECK(store.get(key, 30s) == ddprun::store_names::no_deaths);
    store.compare_set(key, ddprun::store_names::no_deaths, std::to_string(rank));
}

/// "a,a,b": a letter for each rank.
Workers::Variables on_hosts(const std::string& hosts) {
    return {{"SDK_WORKER_HOSTS", hosts}};
}

int count_of(const std::string& hosts) {
    return static_cast<int>(hosts.size() + 1) / 2;
}

void run(
    const std::string& scenario, const std::string& hosts, const Workers::Variables& variables) {
    CAPTURE(scenario);
    CAPTURE(hosts);
    Workers workers(count_of(hosts), {scenario}, variables);
    for (int rank = 0; rank < count_of(hosts); ++rank) {
        const int code = workers.exit_code(rank);
        CAPTURE(workers.output(rank));
        CHECK(code == 0);
    }
}

bool mentions(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("sdk: ranks on several hosts get the same bytes from every call") {
    for (const std::string hosts : {"a,b", "a,a,b", "a,b,a,b"})
        run("some_calls", hosts, on_hosts(hosts));
}

// A sanitizer's allocations touch pages of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("sdk: calls between hosts use the same memory again") {
    for (const std::string hosts : {"a,b", "a,a,b", "a,a,b,b", "a,b,a"})
        run("page_faults", hosts, on_hosts(hosts));
}
#endif

TEST_CASE("sdk: messages and sub-groups reach across hosts") {
    run("messages", "a,a,b", on_hosts("a,a,b"));
    run("sub_groups", "a,a,b,b", on_hosts("a,a,b,b"));
    run("splits", "a,a,b,b", on_hosts("a,a,b,b"));
}

TEST_CASE("sdk: a reducer averages gradients over several hosts") {
    run("reducer", "a,a,b", on_hosts("a,a,b"));
}

TEST_CASE("sdk: ranks on several hosts get the same bits in every run") {
    std::string bits;
    for (int attempt = 0; attempt < 2; ++attempt) {
        Workers workers(4, {"digest"}, on_hosts("a,b,b,a"));
        for (int rank = 0; rank < 4; ++rank) {
            CHECK(workers.exit_code(rank) == 0);
            if (bits.empty()) bits = workers.output(rank);
            CHECK(workers.output(rank) == bits);
        }
    }
}

// The limit of address space with which a rank cannot share memory is too small for a sanitizer.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("sdk: ranks that cannot share memory are separate hosts") {
    run("some_calls", "a,a,a", {{"SDK_WORKER_NO_SHARING", "0,1,0"}});
}
#endif

TEST_CASE("sdk: a rank that dies on another host is named by all, leader or not") {
    for (const int victim : {1, 2}) {
        CAPTURE(victim);
        Workers workers(4, {"endless"}, on_hosts("a,a,b,b"));
        workers.await_line("ready");
        workers.kill(victim, SIGKILL);
        for (int rank = 0; rank < 4; ++rank) {
            if (rank == victim) continue;
            CHECK(workers.exit_code(rank) == peer_lost);
            CAPTURE(workers.output(rank));
            CHECK(mentions(workers.output(rank), "ranks " + std::to_string(victim) + "\n"));
        }
    }
}

TEST_CASE(
    "sdk: in every kind of call a rank killed on another host is named by all within a second") {
    const std::string places[] = {"a,b", "a,b,c", "a,a,b", "a,b,b,c"};
    const std::string ways[] = {"one_by_one", "in_flight", "sub_group"};
    std::size_t turn = 0;
    for (const auto& call : call_names()) {
        CAPTURE(call);
        // A busy machine may delay some attempts; without detection of the loss every attempt takes
        // long.
        long long quickest = 1'000'000;
        for (int i = 0; i < 4 || (quickest >= 1000 && i < 12); ++i, ++turn) {
            const auto& hosts = places[turn % std::size(places)];
            const auto& way = ways[turn % std::size(ways)];
            CAPTURE(hosts);
            CAPTURE(way);
            auto variables = on_hosts(hosts);
            variables["SDK_WORKER_CALL"] = call;
            variables["SDK_WORKER_WAY"] = way;
            variables["DDPRUN_INCARNATION"] = "life";
            const int victim = turn % 2 == 0 ? count_of(hosts) - 1 : 0;
            Workers workers(count_of(hosts), {"endless_call"}, variables);
            workers.await_line("ready");
            const auto killed_at = monotonic_ms();
            workers.kill(victim, SIGKILL);
            write_death(workers, victim);  // a connection that is still being made cannot break
            long long slowest = 0;
            for (int rank = 0; rank < count_of(hosts); ++rank) {
                if (rank == victim) continue;
                CHECK(workers.exit_code(rank) == peer_lost);
                CAPTURE(workers.output(rank));
                CHECK(mentions(workers.output(rank), "ranks " + std::to_string(victim) + "\n"));
                slowest = std::max(slowest, moment_in(workers.output(rank)) - killed_at);
            }
            quickest = std::min(quickest, slowest);
        }
        CHECK(quickest < 1000);
    }
}

TEST_CASE("sdk: a death that an agent reported ends a collective that would not notice it") {
    auto variables = on_hosts("a,a,b");
    variables["DDPRUN_INCARNATION"] = "life";
    Workers workers(3, {"endless"}, variables);
    workers.await_line("ready");
    // Its connections stay open, like those of a machine without power.
    workers.kill(2, SIGSTOP);

    write_death(workers, 2);

    for (int rank = 0; rank < 2; ++rank) {
        CHECK(workers.exit_code(rank) == peer_lost);
        CAPTURE(workers.output(rank));
        CHECK(mentions(workers.output(rank), "ranks 2\n"));
    }
}

TEST_CASE("sdk: while ranks join, a death is named by the others, whichever rank it is") {
    for (const std::string hosts : {"a,a,a", "a,b,b", "a,b,c"})
        for (const int victim : {1, 2}) {
            CAPTURE(hosts);
            CAPTURE(victim);
            auto variables = on_hosts(hosts);
            variables["DDPRUN_INCARNATION"] = "life";
            variables["SDK_WORKER_TIMEOUT_MS"] = "600000";
            // Rank 0, which reads the host ids for the others, never joins.
            Workers workers(3, {"killed_while_joining"}, variables);
            workers.await_line("ready");
            workers.kill(victim, SIGKILL);

            write_death(workers, victim);

            const int other = 3 - victim;
            CHECK(workers.exit_code(other) == peer_lost);
            CAPTURE(workers.output(other));
            CHECK(mentions(workers.output(other), "ranks " + std::to_string(victim) + "\n"));
            workers.kill(0, SIGKILL);
        }
}

TEST_CASE("sdk: a death that an agent reported ends the wait for a rank that never joined") {
    auto variables = on_hosts("a,b,b");
    variables["DDPRUN_INCARNATION"] = "life";
    variables["SDK_WORKER_TIMEOUT_MS"] = "600000";
    Workers workers(3, {"killed_while_joining"}, variables);
    workers.await_line("ready");
    workers.kill(0, SIGKILL);

    write_death(workers, 0);

    for (int rank = 1; rank < 3; ++rank) {
        CHECK(workers.exit_code(rank) == peer_lost);
        CAPTURE(workers.output(rank));
        CHECK(mentions(workers.output(rank), "ranks 0\n"));
    }
}

TEST_CASE("sdk: a stopped rank on another host is named by the Timeout of all, leader or not") {
    for (const int victim : {2, 3}) {
        CAPTURE(victim);
        auto variables = on_hosts("a,a,b,b");
        variables["SDK_WORKER_TIMEOUT_MS"] = "5000";
        Workers workers(4, {"endless"}, variables);
        workers.await_line("ready");
        workers.kill(victim, SIGSTOP);
        for (int rank = 0; rank < 4; ++rank) {
            if (rank == victim) continue;
            CHECK(workers.exit_code(rank) == timed_out);
            const auto& output = workers.output(rank);
            CAPTURE(output);
            // The other rank of its host may also be late, in the call before.
            CHECK(
                (mentions(output, "late ranks " + std::to_string(victim) + " in call ") ||
                 mentions(output, "late ranks 2 3 in call ")));
        }
    }
}

TEST_CASE("sdk: a rank that times out first is not lost for a rank that has waited less") {
    auto variables = on_hosts("a,b,c");
    variables["SDK_WORKER_TIMEOUT_MS"] = "4000";
    Workers workers(3, {"one_late_one_missing"}, variables);
    CHECK(workers.exit_code(0) == 0);
    for (const int rank : {1, 2}) {
        CHECK(workers.exit_code(rank) == timed_out);
        CAPTURE(workers.output(rank));
        CHECK(mentions(workers.output(rank), "late ranks 0 "));
    }
}

TEST_CASE("sdk: when a message hangs, the Timeout names the stopped rank or its host") {
    auto variables = on_hosts("a,a,b,b");
    variables["SDK_WORKER_TIMEOUT_MS"] = "5000";
    Workers workers(4, {"endless_mix"}, variables);
    workers.await_line("ready");
    workers.kill(3, SIGSTOP);
    for (int rank = 0; rank < 3; ++rank) {
        CHECK(workers.exit_code(rank) == timed_out);
        const auto& output = workers.output(rank);
        CAPTURE(output);
        // The others may already be in a later call, in which only a root waits.
        const bool names_it = mentions(output, "late ranks ") && mentions(output, " 3 in ");
        // The rank that was awaited with a message, or after one, may itself wait for that rank.
        const bool is_about_messages =
            mentions(output, " in message ") || mentions(output, ": barrier\n");
        CHECK((names_it || is_about_messages));
        CHECK_FALSE(mentions(output, "late ranks in "));
    }
}

TEST_CASE("sdk: ranks that disagree get Mismatch on all hosts, which names both sides") {
    // Rank 1 and another rank of its host, or of another one.
    for (const std::string hosts : {"a,b,a", "a,b,b"}) {
        CAPTURE(hosts);
        Workers workers(3, {"other_count"}, on_hosts(hosts));
        for (int rank = 0; rank < 3; ++rank) {
            CHECK(workers.exit_code(rank) == mismatched);
            CAPTURE(workers.output(rank));
            CHECK(mentions(workers.output(rank), "call 1: all_reduce (sum) of 1000 float32"));
            CHECK(mentions(workers.output(rank), "call 1: all_reduce (sum) of 500 float32"));
        }
    }
}

TEST_CASE("sdk: a rank of another release on another host is named at once") {
    const StoreThread server;
    ddprun::World world;
    world.world_size = 2;
    world.master_addr = "127.0.0.1";
    world.master_port = server.port();
    world.incarnation = "life";
    world.node_addr = "127.0.0.1";
    auto store = ddprun::Store::connect(world, 30s);
    // The only key that a rank of an earlier release and this one have in common.
    store.set(ddprun::store_names::round("life", 0, 0) + "group1/host_of/1", "elsewhere");
    std::string error;
    try {
        ddprun::ProcessGroup::create(world, store);
    } catch (const ddprun::Mismatch& thrown) {
        error = thrown.what();
    }
    CHECK(
        error ==
        "rank 1 runs another release of the SDK than rank 0: they cannot exchange data between "
        "hosts");
}

TEST_CASE("sdk: a rank that dies while a mesh connects is named by all others in seconds") {
    // A busy machine may take any time; a wait that nothing ends always takes ten seconds.
    long long quickest = 1'000'000;
    for (int i = 0; i < 3 && quickest >= 8000; ++i) {
        // In each pair the lower rank waits for the other to connect.
        auto variables = on_hosts("a,b,c,d,e,f,f");
        variables["DDPRUN_INCARNATION"] = "life";
        Workers workers(7, {"late_in_mesh"}, variables);
        workers.await_line("ready");
        auto store = store_of(workers);
        // The addresses of the group's first mesh of all ranks. Rank 0 has none there yet.
        store.get("ddprun/life/0/0/group1/all/6", 30s);
        const auto killed_at = monotonic_ms();
        workers.kill(6, SIGKILL);
        store.set("go", "");
        write_death(workers, 6);

        long long slowest = 0;
        for (int rank = 0; rank < 6; ++rank) {
            CHECK(workers.exit_code(rank) == peer_lost);
            CAPTURE(workers.output(rank));
            CHECK(mentions(workers.output(rank), "ranks 6\n"));
            slowest = std::max(slowest, moment_in(workers.output(rank)) - killed_at);
        }
        quickest = std::min(quickest, slowest);
    }
    CHECK(quickest < 8000);
}
