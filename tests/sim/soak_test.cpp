// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/life.hpp"
#include "worker_sdk/src/sanitizers.hpp"

#include <doctest/doctest.h>

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace ddprun;
using namespace ddprun::sim;

namespace {

std::array<char, 64> seed_line{};

/// A machine with an inconsistent state aborts: then its seed must be printed too.
void say_seed_and_abort(int signal) {
    [[maybe_unused]] const auto written =
        ::write(STDERR_FILENO, seed_line.data(), seed_line.size());
    ::signal(signal, SIG_DFL);
    ::raise(signal);
}

std::string from_environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string{} : value;
}

void live_through(std::uint64_t seed, Life::Servers servers = Life::Servers::fixed) {
    std::snprintf(
        seed_line.data(),
        seed_line.size(),
        "DDPRUN_SEED=%llu gives this again\n",
        static_cast<unsigned long long>(seed));
    ::signal(SIGABRT, say_seed_and_abort);
    Life life(seed, servers);
    const auto problem = life.play();
    INFO("DDPRUN_SEED=", seed, " gives this again; the end of its record:", life.tail());
    CHECK(problem == "");
}

/// The same thousand lives unless a seed is given.
void soak(Life::Servers servers) {
    const auto given = from_environment("DDPRUN_SEED");
    const auto wanted = from_environment("DDPRUN_SEEDS");
    const std::uint64_t first = given.empty() ? 1001 : std::stoull(given);
    const std::uint64_t count = wanted.empty() ? (given.empty() ? 1000 : 1) : std::stoull(wanted);
    MESSAGE("DDPRUN_SEED=", first, " DDPRUN_SEEDS=", count);
    for (std::uint64_t i = 0; i < count; ++i)
        live_through(first + i, servers);
}

}  // namespace

TEST_CASE("a hundred random lives break no invariant and come to an end") {
    for (std::uint64_t seed = 1; seed <= 100; ++seed)
        live_through(seed);
}

TEST_CASE("random lives with elected servers break no invariant and come to an end") {
    // Under a sanitizer a life takes seven times as long.
    constexpr std::uint64_t count = is_sanitized ? 30 : 100;
    for (std::uint64_t seed = 1; seed <= count; ++seed)
        live_through(seed, Life::Servers::elected);
}

TEST_CASE("random lives whose nodes vote break no invariant and come to an end") {
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
        live_through(seed, Life::Servers::voted);
}

// Not part of the quick run: ctest gives them their own label.
TEST_CASE("soak: random lives, the same thousand unless a seed is given" * doctest::skip()) {
    soak(Life::Servers::fixed);
}

TEST_CASE("elected soak: the same where the server is elected" * doctest::skip()) {
    soak(Life::Servers::elected);
}

TEST_CASE("voted soak: the same where the nodes vote about it" * doctest::skip()) {
    soak(Life::Servers::voted);
}
