// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace ddprun {

/// Starts a thread on which no signal is delivered, but those that the thread causes itself: a
/// program's handlers run on the program's own threads.
template <class Body>
std::thread start_quiet_thread(Body body) {
    sigset_t blocked;
    sigset_t before;
    ::sigfillset(&blocked);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGPROF})
        ::sigdelset(&blocked, own);
    ::pthread_sigmask(SIG_SETMASK, &blocked, &before);
    std::thread thread(std::move(body));
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
}

}  // namespace ddprun
