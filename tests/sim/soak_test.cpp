// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/cluster.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

using namespace ddprun;
using namespace ddprun::sim;

namespace {

using namespace std::chrono_literals;

/// The random life of one cluster. Everything follows from the seed.
class Schedule {
public:
    explicit Schedule(std::uint64_t seed) : dice_(seed), cluster_(seed, options()) {}

    /// Plays it to its end. Empty, or what was wrong.
    std::string play() {
        const int first_nodes = any(1, cluster_.options().nodes.max + 1);
        for (int i = 0; i < first_nodes; ++i)
            start_node();
        const int faults = any(0, 12);
        for (int i = 0; i < faults && problem().empty(); ++i) {
            cluster_.pass(std::chrono::milliseconds{any(0, any(0, 1) == 0 ? 50 : 20'000)});
            do_something();
        }
        heal_everything();
        return problem().empty() ? end_well() : problem();
    }

    std::string tail() { return cluster_.world().tail(40); }

private:
    Cluster::Options options() {
        Cluster::Options options;
        options.nodes.min = any(1, 3);
        options.nodes.max = options.nodes.min + any(0, 3);
        options.nodes.spares = any(0, 3) == 0 ? 1 : 0;
        options.workers = any(1, 2);
        options.restarts = any(0, 3);
        options.weather.longest = std::chrono::milliseconds{any(1, 20)};
        options.settings.late_nodes = static_cast<control::LateNodes>(any(0, 2));
        options.settings.grace = std::chrono::seconds{any(1, 30)};
        options.settings.join_timeout = 120s;
        options.settings.max_losses = any(1, 10);
        auto& restart = options.settings.restart;
        restart.shortest_delay = std::chrono::seconds{std::max(any(-5, 5), 0)};
        restart.longest_delay = 4 * restart.shortest_delay;
        if (any(0, 2) == 0) options.hosted_by = "n1";
        return options;
    }

    int any(int low, int high) { return std::uniform_int_distribution<int>{low, high}(dice_); }

    void start_node() { cluster_.start("n" + std::to_string(++node_count_)); }

    Host& any_host() {
        const auto hosts = cluster_.hosts();
        return *hosts[static_cast<std::size_t>(any(0, static_cast<int>(hosts.size()) - 1))];
    }

    void do_something() {
        auto& host = any_host();
        const int worker = any(0, cluster_.options().workers - 1);
        switch (any(0, 10)) {
            case 0:
                return host.end_worker(
                    worker, agent::WorkerExit{agent::WorkerExit::Killed{SIGSEGV, true}});
            case 1:
                return host.end_worker(
                    worker, agent::WorkerExit{agent::WorkerExit::Exited{any(1, 3)}});
            case 2: return host.end_worker(worker, agent::WorkerExit{agent::WorkerExit::Exited{0}});
            case 3: return host.kill();
            case 4: return host.is_alive() && !host.has_just_broken() ? host.cut() : void();
            case 5: return host.heal();
            case 6: return host.is_alive() ? host.break_connection() : void();
            case 7: return host.make_stubborn(worker);
            case 8:
                if (node_count_ < 8) start_node();
                return;
            case 9:
                if (host.is_alive() && any(0, 2) == 0)
                    host.signal(any(0, 3) == 0 ? SIGINT : SIGTERM);
                return;
            default: return cluster_.finish_workers();
        }
    }

    void heal_everything() {
        for (auto* host : cluster_.hosts())
            host->heal();
    }

    /// After the last fault: workers that train end well, and then every job has to end.
    std::string end_well() {
        // The longest that a lease, a drain, a last call and waiting for nodes can take together,
        // for a job and for the one that a node counted as lost begins after it.
        const auto end = cluster_.world().now() + 1h;
        while (!cluster_.is_done()) {
            if (cluster_.world().now() > end) return "the job does not end";
            cluster_.pass(1s);
            for (auto* host : cluster_.hosts())
                if (host->is_alive()) host->finish_training();
            if (!problem().empty()) return problem();
        }
        cluster_.pass(1s);
        if (cluster_.checkers().living_worker_count() > 0) return "a worker outlives its ddprun";
        return problem();
    }

    std::string problem() {
        const auto& complaints = cluster_.checkers().complaints();
        return complaints.empty() ? std::string{} : complaints.front();
    }

    Random dice_;
    Cluster cluster_;
    int node_count_ = 0;
};

std::string number_from_environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string{} : value;
}

void live_through(std::uint64_t seed) {
    Schedule schedule(seed);
    const auto problem = schedule.play();
    INFO("DDPRUN_SEED=", seed, " gives this again; the end of its record:", schedule.tail());
    CHECK(problem == "");
}

}  // namespace

TEST_CASE("a hundred random lives break no invariant and come to an end") {
    for (std::uint64_t seed = 1; seed <= 100; ++seed)
        live_through(seed);
}

// Not part of the quick run: ctest gives it its own label.
TEST_CASE("soak: random lives from a seed that is printed" * doctest::skip()) {
    const auto given = number_from_environment("DDPRUN_SEED");
    const auto wanted = number_from_environment("DDPRUN_SEEDS");
    const std::uint64_t first = given.empty() ? std::random_device{}() : std::stoull(given);
    const std::uint64_t count = wanted.empty() ? (given.empty() ? 1000 : 1) : std::stoull(wanted);
    MESSAGE("DDPRUN_SEED=", first, " DDPRUN_SEEDS=", count);
    for (std::uint64_t i = 0; i < count; ++i)
        live_through(first + i);
}
