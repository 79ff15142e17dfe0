// SPDX-License-Identifier: Apache-2.0
// The main job, small: workers under ddprun, one of them killed on the way.
#include "tests/examples/run_program.hpp"
#include "tests/examples/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace {

/// In the first round rank 1 dies as soon as rank 0 has saved something.
constexpr const char* killed_once = R"(#!/bin/sh
saved=$1; shift
[ "$RANK" = 1 ] && [ "$DDPRUN_ROUND" = 0 ] || exec "$@"
"$@" &
until ls "$saved"/checkpoint-*.ddp >/dev/null 2>&1; do sleep 0.01; done
kill -9 $!
kill -9 $$
)";

Outcome train(const TemporaryFolder& folder, const std::string& saved, const std::string& wrapper) {
    return run(
        "ddprun",
        "--standalone --nproc-per-node=2 --max-restarts=1 --no-python " + wrapper +
            " '" DDPRUN_BIN_DIR "/train_mnist' --data " + folder.in("digits") +
            " --epochs 8 --checkpoint-every 5 --checkpoint-dir " + folder.in(saved));
}

std::string accuracy_in(const std::string& output) {
    const auto start = output.find("test accuracy ");
    REQUIRE(start != std::string::npos);
    return output.substr(start, output.find('\n', start) - start);
}

}  // namespace

TEST_CASE("a job that lost a worker ends with the bits of an undisturbed one") {
    const TemporaryFolder folder;
    REQUIRE(
        run("make_digits", "--out " + folder.in("digits") + " --train 3001 --test 200").exit_code ==
        0);
    const auto script = folder.in("killed_once");
    std::ofstream{script} << killed_once;
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);

    const auto undisturbed = train(folder, "undisturbed", "");
    const auto disturbed = train(folder, "disturbed", script + " " + folder.in("disturbed"));

    CAPTURE(undisturbed.output);
    CAPTURE(disturbed.output);
    CHECK(undisturbed.exit_code == 0);
    CHECK(disturbed.exit_code == 0);
    CHECK(matches(undisturbed.output, "^rank 1 of 2: 1501 samples$"));
    CHECK(matches(disturbed.output, "^resumed from step [0-9]+ of round 0: "));
    CHECK(accuracy_in(disturbed.output) == accuracy_in(undisturbed.output));
    const auto compared =
        run("compare_checkpoints", folder.in("undisturbed") + " " + folder.in("disturbed"));
    CAPTURE(compared.output);
    CHECK(compared.exit_code == 0);
}
