// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/job_spec.hpp"
#include "tests/unit/launcher/a_machine.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using std::chrono_literals::operator""s;

namespace {

std::string problem_of(const std::vector<std::string>& words, const Environment& variables = {}) {
    const auto spec = resolved_with(words, variables);
    return spec ? "" : spec.error().context;
}

}  // namespace

TEST_CASE("a deadline is longer than the shutdown timeout, which comes after the save") {
    CHECK_FALSE(resolved_with({}, {})->deadline.length.value);
    CHECK(resolved_with({"--deadline=5m"}, {})->deadline.length.value == 300s);
    CHECK(
        resolved_with({"--deadline=11", "--shutdown-timeout=10"}, {})->deadline.length.value ==
        11s);
    for (const auto* text : {"30", "0", "-1", "soon", "", "slurm:60"}) {
        CAPTURE(text);
        const auto problem = problem_of({std::string{"--deadline="} + text});
        CHECK(problem.starts_with("--deadline: '" + std::string{text} + "': accepted are slurm, "));
        CHECK(
            problem.ends_with("30 s of --shutdown-timeout, which the workers have after the save"));
    }
}

TEST_CASE("the end of an allocation is known where Slurm says it") {
    const auto spec = resolved_with({"--deadline=slurm"}, {{"SLURM_JOB_END_TIME", "1800000000"}});
    REQUIRE(spec.has_value());
    CHECK(spec->deadline.allocation_end == 1'800'000'000);
    for (const auto* end : {"", "soon", "0", "-5", "18000000000000000000", "12x"}) {
        CAPTURE(end);
        CHECK(problem_of({"--deadline=slurm"}, {{"SLURM_JOB_END_TIME", end}})
                  .starts_with("--deadline: 'slurm': it needs SLURM_JOB_END_TIME"));
    }
    CHECK_FALSE(problem_of({"--deadline=slurm"}).empty());
}

TEST_CASE("a rank at a terminal has its time, or a given shutdown timeout before the end") {
    const Environment in_slurm{{"SLURM_JOB_END_TIME", "1800000000"}};
    CHECK(problem_of({"--deadline=slurm", "--attach=0"}, in_slurm)
              .ends_with("give --shutdown-timeout as well"));
    CHECK(
        problem_of({"--deadline=slurm", "--attach=0", "--shutdown-timeout=20"}, in_slurm).empty());
}

TEST_CASE("what an agent gets of the options for a notice") {
    const auto config = to_agent_config(
        *resolved_with({"--deadline=40", "--preempt-signal=USR1", "--shutdown-timeout=10"}, {}));
    CHECK(config.preemption.signal == SIGUSR1);
    CHECK(config.preemption.window(config.join.settings.grace) == 30s);
    CHECK(config.preemption.whole(config.join.settings.grace) == 40s);
    CHECK(config.preemption.is_expected());
    const auto usual = to_agent_config(*resolved_with({}, {}));
    CHECK_FALSE(usual.preemption.is_expected());
    CHECK(usual.preemption.window(usual.join.settings.grace) == 15s);
    CHECK(usual.preemption.whole(usual.join.settings.grace) == 30s);
}
