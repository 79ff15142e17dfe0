// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace ddprun {

/// While it exists, no signal is delivered to this thread except those that the thread causes
/// itself; threads that it starts meanwhile never get any.
class SignalsMasked {
public:
    SignalsMasked() {
        sigset_t blocked;
        ::sigfillset(&blocked);
        for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGPROF})
            ::sigdelset(&blocked, own);
        ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
    }
    SignalsMasked(const SignalsMasked&) = delete;
    SignalsMasked& operator=(const SignalsMasked&) = delete;
    ~SignalsMasked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_;
};

/// Starts a signal-masked thread: it gets no signal except those that it causes itself, so a
/// program's handlers run on the program's own threads.
template <class Body>
std::thread start_signal_masked_thread(Body body) {
    const SignalsMasked masked;
    return std::thread(std::move(body));
}

}  // namespace ddprun
