// SPDX-License-Identifier: Apache-2.0
#include "agent/process/inherited_state.hpp"

#include <pthread.h>

namespace ddprun::agent {

InheritedState InheritedState::capture() {
    InheritedState state;
    pthread_sigmask(SIG_SETMASK, nullptr, &state.mask);
    sigemptyset(&state.ignored);
    for (int signal = 1; signal < NSIG; ++signal) {
        struct sigaction action {};
        if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
            sigaddset(&state.ignored, signal);
    }
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) state.descriptor_limit = limit;
    return state;
}

InheritedState InheritedState::for_workers(std::span<const int> handled, int notice) const {
    auto state = *this;
    for (const int signal : handled)
        if (!keeps_ignoring(signal)) sigdelset(&state.ignored, signal);
    if (notice != 0) sigaddset(&state.ignored, notice);
    return state;
}

}  // namespace ddprun::agent
