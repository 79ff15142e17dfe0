// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

/// Helpers for tests of `ddprunctl`.
namespace ddprun::test {

using Json = nlohmann::json;

/// A new id, since jobs of other tests may run on this machine, and root sees them all.
inline std::string fresh_id() {
    static int number = 0;
    return "ctl-" + std::to_string(::getpid()) + '-' + std::to_string(++number);
}

struct Outcome {
    int code;
    std::string out;
    std::string err;
};

inline Outcome outcome_of(Running program) {
    const int code = program.wait_for_code();
    return {code, program.out(), program.err()};
}

inline Outcome ctl(const Words& words) {
    return outcome_of(Running{program("ddprunctl"), words});
}

/// The lines of `ps --json` about a run id.
inline std::vector<Json> listed(const std::string& run_id) {
    const auto list = ctl({"ps", "--json"});
    REQUIRE(list.code == 0);
    std::vector<Json> found;
    for (const auto& one : Json::parse(list.out))
        if (one["run_id"] == run_id) found.push_back(one);
    return found;
}

/// A worker may write before its agent has recorded that it runs.
inline bool is_running(const std::string& run_id) {
    return holds_within(fact_timeout, [&] {
        const auto lines = listed(run_id);
        return !lines.empty() && lines.front()["state"] == "running";
    });
}

}  // namespace ddprun::test
