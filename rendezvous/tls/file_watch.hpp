// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <functional>
#include <memory>
#include <thread>

namespace ddprun::tls {

/// Calls `check` once each interval, on a separate thread.
///
/// The files that it reads may be on a network file system that does not answer. Only the thread
/// waits for them, and the destructor does not wait for the thread: a call of `check` may outlast
/// this object, so it must own what it uses.
class FileWatch {
public:
    FileWatch(std::function<void()> check, Duration interval);
    ~FileWatch();
    FileWatch(const FileWatch&) = delete;
    FileWatch& operator=(const FileWatch&) = delete;

private:
    struct State;
    static void run(State& state, const std::function<void()>& check, Duration interval);

    std::shared_ptr<State> state_;
    std::thread thread_;
};

}  // namespace ddprun::tls
