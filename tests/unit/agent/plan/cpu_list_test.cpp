// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/cpu_list.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::agent;

TEST_CASE("a list of CPUs is read as the kernel writes it") {
    CHECK(parse_cpu_list("0-3,8,10-11\n") == CpuList{0, 1, 2, 3, 8, 10, 11});
    CHECK(parse_cpu_list("7") == CpuList{7});
    CHECK(parse_cpu_list("") == CpuList{});
    CHECK(parse_cpu_list("\n") == CpuList{});
}

TEST_CASE("what is no list of CPUs is refused") {
    for (const std::string text :
         {"a", "1-", "-1", "3-1", "1,", ",1", "1 2", "1,1", "2,0-4", "65536", "99999999999"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_cpu_list(text));
    }
}

TEST_CASE("a list is written as it is read") {
    for (const std::string text : {"", "0", "0-1", "0-3,8,10-11", "1,3,5", "0-65535"})
        CHECK(describe(*parse_cpu_list(text)) == text);
}

TEST_CASE("what two lists share is found") {
    CHECK(common({0, 1, 2, 5}, {1, 5, 9}) == CpuList{1, 5});
    CHECK(contains({0, 4, 9}, 4));
    CHECK_FALSE(contains({0, 4, 9}, 5));
}
