// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/clock.hpp"

#include <ctime>

namespace ddprun {

Instant Clock::now() {
    timespec moment{};
    clock_gettime(CLOCK_BOOTTIME, &moment);
    return Instant{std::chrono::seconds{moment.tv_sec} + std::chrono::nanoseconds{moment.tv_nsec}};
}

}  // namespace ddprun
