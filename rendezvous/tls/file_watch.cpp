// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/file_watch.hpp"

#include "rendezvous/base/signal_masked_thread.hpp"

#include <condition_variable>
#include <mutex>
#include <new>
#include <utility>

namespace ddprun::tls {

struct FileWatch::State {
    std::mutex mutex;
    std::condition_variable ended;
    bool is_over = false;
    bool is_checking = false;
};

void FileWatch::run(State& state, const std::function<void()>& check, Duration interval) {
    std::unique_lock lock(state.mutex);
    while (!state.ended.wait_for(lock, interval, [&] { return state.is_over; })) {
        state.is_checking = true;
        lock.unlock();
        try {
            check();
        } catch (const std::bad_alloc&) {
            // Tried again after the interval.
        }
        lock.lock();
        state.is_checking = false;
    }
}

FileWatch::FileWatch(std::function<void()> check, Duration interval)
    : state_(std::make_shared<State>()),
      thread_(start_signal_masked_thread([state = state_, check = std::move(check), interval] {
          run(*state, check, interval);
      })) {}

FileWatch::~FileWatch() {
    bool is_checking = false;
    {
        const std::lock_guard lock(state_->mutex);
        state_->is_over = true;
        is_checking = state_->is_checking;
    }
    state_->ended.notify_all();
    if (is_checking)
        thread_.detach();
    else
        thread_.join();
}

}  // namespace ddprun::tls
