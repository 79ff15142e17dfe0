// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace ddprun {

/// While it exists, no signal is delivered to this thread. A thread that this thread starts during
/// that time gets no signal at all.
class SignalsMasked {
public:
    enum class Except {
        none,
        /// signals that a thread causes itself: a fault, a profiler's tick
        own,
    };

    explicit SignalsMasked(Except except = Except::own) {
        sigset_t masked;
        ::sigfillset(&masked);
        if (except == Except::own)
            for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGPROF})
                ::sigdelset(&masked, own);
        ::pthread_sigmask(SIG_SETMASK, &masked, &before_);
    }
    SignalsMasked(const SignalsMasked&) = delete;
    SignalsMasked& operator=(const SignalsMasked&) = delete;
    ~SignalsMasked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_{};
};

/// Starts a thread that gets no signal except those that it causes itself, so that signals to the
/// process reach its other threads.
template <class Body>
std::thread start_signal_masked_thread(Body body) {
    const SignalsMasked masked;
    return std::thread(std::move(body));
}

}  // namespace ddprun
