// SPDX-License-Identifier: Apache-2.0
#include "tests/support/store_beside_model.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

using namespace ddprun::test;

namespace {

constexpr std::size_t operations = 200;

std::vector<std::uint8_t> random_bytes(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::uint8_t> bytes(3 * operations);
    for (auto& byte : bytes)
        byte = static_cast<std::uint8_t>(random());
    return bytes;
}

std::uint64_t number_in_environment(const char* name, std::uint64_t otherwise) {
    const char* const text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

// DDPRUN_SEED=N replays one sequence, and with DDPRUN_SEEDS=COUNT those that follow it too.
TEST_CASE("random operations of several clients are answered as the model answers them") {
    const bool is_replay = std::getenv("DDPRUN_SEED") != nullptr;
    const auto first = number_in_environment("DDPRUN_SEED", 1);
    const auto count = number_in_environment("DDPRUN_SEEDS", is_replay ? 1 : 300);
    for (auto seed = first; seed < first + count; ++seed) {
        INFO("DDPRUN_SEED=", seed, " gives this again");
        REQUIRE(StoreBesideModel::first_difference(random_bytes(seed)) == "");
    }
}
