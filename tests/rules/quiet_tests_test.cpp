// SPDX-License-Identifier: Apache-2.0
#include "tests/rules/tree.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun::rules;

TEST_CASE("unit tests and the simulation never sleep, open a socket or start a process") {
    std::vector<std::string> broken;
    for (const auto& file : sources({"tests/unit", "tests/sim"})) {
        for (const auto* word :
             {"sleep_for(",
              "sleep_until(",
              "usleep(",
              "nanosleep(",
              "::sleep(",
              "socket(",
              "socketpair(",
              "fork(",
              "vfork(",
              "popen(",
              "system(",
              "posix_spawn(",
              "execv(",
              "execvp(",
              "std::thread",
              "std::jthread",
              "std::async("})
            for (const auto& place : file.uses_of(word))
                broken.push_back(place);
        for (const auto& include : file.includes())
            for (const auto* header :
                 {"<thread>", "<boost/asio", "<boost/process", "<sys/socket.h>", "<sys/wait.h>"})
                if (include.starts_with(header))
                    broken.push_back(file.path + " includes " + include);
    }
    CHECK_MESSAGE(broken.empty(), listed(broken));
}
