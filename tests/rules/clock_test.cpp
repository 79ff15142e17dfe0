// SPDX-License-Identifier: Apache-2.0
#include "tests/rules/tree.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

using namespace ddprun::rules;

namespace {

/// Blocking code without a driver, and the clock itself. Lines of logs and of workers have the wall
/// time, which decides nothing.
const std::vector<std::string_view> readers{
    "rendezvous/base/clock.cpp",
    "rendezvous/base/wall_time.cpp",
    "rendezvous/net/driver.hpp",
    "rendezvous/client/blocking_",
    "rendezvous/client/store_client.cpp",
    "launcher/network_facts.cpp",
    "launcher/ctl/ask_agents.cpp",
    "launcher/run_program.cpp",
    "agent/keeper/keeper.cpp",
    "rendezvous/witness/etcd_client.cpp",
    "rendezvous/witness/kubernetes_client.cpp",
    "agent/process/descendants.cpp",
};

bool may_read(const SourceFile& file) {
    return std::any_of(
        readers.begin(), readers.end(), [&](auto reader) { return file.path.starts_with(reader); });
}

}  // namespace

TEST_CASE("the clock is read by drivers and by blocking code below no driver, and nowhere else") {
    std::vector<std::string> broken;
    for (const auto& file : sources({"rendezvous", "agent", "launcher"}))
        if (!may_read(file))
            for (const auto* word :
                 {"Clock::now(", "steady_clock::now(", "system_clock::now(", "clock_gettime("})
                for (const auto& place : file.uses_of(word))
                    broken.push_back(place);
    CHECK_MESSAGE(broken.empty(), listed(broken));
}
