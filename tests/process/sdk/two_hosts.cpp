// SPDX-License-Identifier: Apache-2.0
// A job of `ddprun` on two hosts that are connected by a cable; its ranks are in collectives. The
// ranks notice that they are on different hosts only because they cannot share memory.
#include "tests/process/support/left_behind.hpp"
#include "tests/process/support/network_pair.hpp"
#include "tests/process/support/running.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

constexpr int peer_lost = 10;
constexpr int timed_out = 11;

/// Some ranks on each host, rank 0 on the first.
struct Job {
    explicit Job(
        int ranks_per_host,
        const std::string& scenario = "endless",
        const std::string& timeout_ms = "")
        : a(start(hosts.a(), 0, ranks_per_host, scenario, timeout_ms)),
          b(start(hosts.b(), 1, ranks_per_host, scenario, timeout_ms)) {
        for (int rank = 0; rank < 2 * ranks_per_host; ++rank) {
            auto& host = rank < ranks_per_host ? a : b;
            pids.push_back(host.wait_for_number("rank " + std::to_string(rank) + " pid "));
        }
        for (int rank = 0; rank < ranks_per_host; ++rank) {
            a.wait_for_line("^ready");
            b.wait_for_line("^ready");
        }
    }

    Running start(
        const NetworkPair::Host& host,
        int node,
        int ranks,
        const std::string& scenario,
        const std::string& timeout_ms) const {
        Running::Options options;
        options.network_namespace = host.name;
        // A rank that gets SIGTERM can still print which rank died.
        options.environment = {{"SDK_WORKER_IGNORE_TERM", "1"}};
        if (!timeout_ms.empty()) options.environment["SDK_WORKER_TIMEOUT_MS"] = timeout_ms;
        options.arguments = {
            "--rdzv-backend=c10d",
            "--rdzv-id=tested",
            "--rdzv-endpoint=" + hosts.a().address + ":29400",
            "--nnodes=2",
            "--node-rank=" + std::to_string(node),
            "--nproc-per-node=" + std::to_string(ranks),
            "--no-python",
            stub("sdk_worker"),
            scenario};
        return Running(program("ddprun"), options);
    }

    void kill(int rank, int signal) const {
        REQUIRE(::kill(pids[static_cast<std::size_t>(rank)], signal) == 0);
    }

    /// The inode numbers of the shared memory of a rank's group.
    std::set<std::string> memory_of(int rank) const {
        std::ifstream maps(
            "/proc/" + std::to_string(pids[static_cast<std::size_t>(rank)]) + "/maps");
        std::set<std::string> numbers;
        for (std::string line; std::getline(maps, line);) {
            if (line.find("/memfd:ddprun") == std::string::npos) continue;
            std::istringstream words(line);
            std::string number;
            for (int word = 0; word < 5; ++word)
                words >> number;
            numbers.insert(number);
        }
        return numbers;
    }

    NetworkPair hosts;
    Running a;
    Running b;
    std::vector<int> pids;
};

}  // namespace

TEST_CASE("sdk: ranks of one network namespace share memory, those of two do not") {
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    Job job(2);

    CHECK(job.memory_of(0).size() == 1);
    CHECK(job.memory_of(1) == job.memory_of(0));
    CHECK(job.memory_of(2).size() == 1);
    CHECK(job.memory_of(3) == job.memory_of(2));
    CHECK(job.memory_of(2) != job.memory_of(0));

    // They ignore SIGTERM.
    job.a.signal(SIGINT);
    job.a.signal(SIGINT);
    CHECK(job.a.wait_for_code() == 128 + SIGINT);
    for (const int pid : job.pids)
        CHECK(is_gone(pid));
    CHECK(no_descendants_left());
}

TEST_CASE("sdk: a rank that dies on another host of a job is named by every other rank") {
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    for (const int ranks_per_host : {1, 2}) {
        CAPTURE(ranks_per_host);
        Job job(ranks_per_host);
        const int victim = 2 * ranks_per_host - 1;
        const auto names_victim = "^after .* ranks " + std::to_string(victim) + "$";

        const auto start = std::chrono::steady_clock::now();
        job.kill(victim, SIGKILL);
        for (int rank = 0; rank < ranks_per_host; ++rank)
            job.a.wait_for_line(names_victim);
        for (int rank = 1; rank < ranks_per_host; ++rank)
            job.b.wait_for_line(names_victim);

        // Measured: a few milliseconds. No time limit is involved.
        CHECK(std::chrono::steady_clock::now() - start < 60s);
        CHECK(job.a.wait_for_code() == 128 + SIGKILL);
        CHECK(job.b.wait_for_code() == 128 + SIGKILL);
        CHECK(no_descendants_left());
    }
}

TEST_CASE("sdk: when all ranks of a host die, those of the other name one of them") {
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    Job job(2);

    // Rank 2 is stopped first: a running rank would detect the loss of the other and end by itself.
    // It still may end so: the agent continues processes that it stops, and may be faster than the
    // third signal.
    job.kill(2, SIGSTOP);
    job.kill(3, SIGKILL);
    REQUIRE((::kill(job.pids[2], SIGKILL) == 0 || errno == ESRCH));

    for (int rank = 0; rank < 2; ++rank)
        job.a.wait_for_line("^after .* ranks (2|3|2 3)$");
    CHECK(job.a.wait_for_code() == 128 + SIGKILL);
    CHECK(job.b.wait_for_code() == 128 + SIGKILL);
    CHECK(no_descendants_left());
}

TEST_CASE("sdk: an agent reports the death of a rank to which the waiting rank has no connection") {
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    Job job(1, "first_one_missing");

    job.kill(0, SIGKILL);

    job.b.wait_for_line("^after .* ranks 0$");
    CHECK(job.a.wait_for_code() == 128 + SIGKILL);
    CHECK(job.b.wait_for_code() == 128 + SIGKILL);
    CHECK(no_descendants_left());
}

TEST_CASE("sdk: a cut cable between two hosts is a Timeout on both") {
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    Job job(1, "endless", "5000");

    job.hosts.cut();

    // The host that still has the store can see which ranks do not report; a rank whose last report
    // is a wait is not late.
    job.a.wait_for_line("^late ranks( 1)? in ");
    job.b.wait_for_line("^late ranks");
    job.hosts.heal();
    CHECK(job.a.wait_for_code() == timed_out);
    CHECK(job.b.wait_for_code() == timed_out);
    CHECK(no_descendants_left());
}

TEST_CASE("sdk: without agents a machine that is cut off is a PeerLost, long before the timeout") {
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    const NetworkPair hosts;
    const auto start = [&hosts](const NetworkPair::Host& host, int rank) {
        Running::Options options;
        options.network_namespace = host.name;
        options.environment = {
            {"RANK", std::to_string(rank)},
            {"WORLD_SIZE", "2"},
            {"LOCAL_RANK", "0"},
            {"LOCAL_WORLD_SIZE", "1"},
            {"MASTER_ADDR", hosts.a().address},
            {"MASTER_PORT", "29500"},
            {"SDK_WORKER_TIMEOUT_MS", "300000"}};
        options.arguments = {"endless"};
        return Running(stub("sdk_worker"), options);
    };
    Running a = start(hosts.a(), 0);
    Running b = start(hosts.b(), 1);
    a.wait_for_line("^ready");
    b.wait_for_line("^ready");

    hosts.cut();

    a.wait_for_line("^after .* ranks 1$");
    b.wait_for_line("^after .* ranks 0$");
    CHECK(a.wait_for_code() == peer_lost);
    CHECK(b.wait_for_code() == peer_lost);
}
