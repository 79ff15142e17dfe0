// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/old_copies.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun::launcher;

namespace {

using Names = std::vector<std::string>;
constexpr std::int64_t hour = 3'600;
constexpr std::int64_t now = 1'000 * hour;

}  // namespace

TEST_CASE("of the copies of the program the last used ones stay, and the one that runs") {
    const std::vector<ProgramCopy> copies{
        {"own", now - 90 * hour},
        {"b", now - 3 * hour},
        {"a", now - 2 * hour},
        {"c", now - 4 * hour},
        {"d", now - 5 * hour},
        {"e", now - 6 * hour}};
    CHECK(old_copies(copies, "own", now) == Names{"d", "e"});
    CHECK(old_copies({copies.begin(), copies.begin() + 4}, "own", now) == Names{});
    CHECK(old_copies({}, "own", now) == Names{});
}

TEST_CASE("a copy that another host may be about to start stays, however many there are") {
    std::vector<ProgramCopy> copies;
    for (const char name : {'a', 'b', 'c', 'd', 'e'})
        copies.push_back({std::string{name}, now - hour + 1});
    copies.push_back({"f", now - hour - 1});
    CHECK(old_copies(copies, "own", now) == Names{"f"});
}

TEST_CASE("a folder of a copy has the SHA-256 as its name") {
    CHECK(is_copy_name(std::string(64, '0')));
    CHECK_FALSE(is_copy_name(std::string(63, '0')));
    CHECK_FALSE(is_copy_name(std::string(64, 'A')));
    CHECK_FALSE(is_copy_name(".." + std::string(62, '/')));
}
