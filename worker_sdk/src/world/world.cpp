// SPDX-License-Identifier: Apache-2.0
#include "ddprun/world.hpp"

#include "worker_sdk/src/world/environment.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <mutex>
#include <string_view>

namespace ddprun {

namespace {

void say_that_nobody_launched_us() {
    static std::once_flag said;
    std::call_once(said, [] {
        constexpr std::string_view text =
            "ddprun: RANK is not set, so this process runs alone, as a world of one; "
            "to run several: ddprun --nproc-per-node=N PROGRAM\n";
        // Best effort: a closed stderr is no reason to stop.
        [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
    });
}

}  // namespace

World World::from_environment() {
    auto world = environment::read_world([](const char* name) { return ::getenv(name); });
    if (!world.is_launched()) say_that_nobody_launched_us();
    return world;
}

}  // namespace ddprun
