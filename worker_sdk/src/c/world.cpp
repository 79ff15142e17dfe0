// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/c/guard.hpp"
#include "worker_sdk/src/world/environment.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <string_view>

namespace {

void print_world_of_one() {
    static std::atomic<bool> is_said = false;
    if (is_said.exchange(true)) return;
    constexpr std::string_view text =
        "ddprun: RANK is not set, so this process runs alone, as a world of one; "
        "to run several: ddprun --nproc-per-node=N PROGRAM\n";
    // Best effort: a closed stderr is no reason to stop.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

extern "C" int ddprun_init(const char* init_method, ddprun_world* world) {
    return ddprun::c::guarded([&] {
        ddprun::c::known_size(world, "world");
        const auto found = ddprun::environment::read_world(
            [](const char* name) { return ::getenv(name); },
            ddprun::parse_init_method(init_method ? init_method : ""));
        if (!found.is_launched()) print_world_of_one();
        ddprun::c::fill(world, "world", found.to_c());
    });
}
