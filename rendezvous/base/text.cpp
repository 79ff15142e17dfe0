// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/text.hpp"

#include <signal.h>
#include <string.h>

#include <array>
#include <cstdio>

namespace ddprun {

std::string signal_name(int signal) {
    if (const char* short_name = ::sigabbrev_np(signal)) return std::string{"SIG"} + short_name;
    if (signal >= SIGRTMIN && signal <= SIGRTMAX)
        return "SIGRTMIN+" + std::to_string(signal - SIGRTMIN);
    return "signal " + std::to_string(signal);
}

std::string seconds_text(Duration length) {
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%.9g s", in_seconds(length));
    return digits.data();
}

}  // namespace ddprun
