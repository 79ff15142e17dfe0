// SPDX-License-Identifier: Apache-2.0
#include "ddprun/prefetching_loader.hpp"
#include "worker_sdk/src/start_thread.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace ddprun::data {

class ReadAhead::State {
public:
    State(
        std::size_t item_count,
        std::size_t ahead,
        std::size_t threads,
        std::function<void(std::size_t)> make)
        : item_count_(item_count),
          places_(std::max<std::size_t>(ahead, 1)),
          make_(std::move(make)) {
        const auto wanted =
            std::min({std::max<std::size_t>(threads, 1), places_.size(), item_count});
        threads_.reserve(wanted);
        for (std::size_t i = 0; i < wanted; ++i) {
            try {
                threads_.push_back(start_thread([this] { serve(); }));
            } catch (const Error&) {
                if (threads_.empty()) throw;
                return;  // fewer threads can make the same items
            }
        }
    }

    ~State() {
        {
            const std::lock_guard lock(mutex_);
            is_closing_ = true;
        }
        changed_.notify_all();
        for (auto& thread : threads_)
            thread.join();
    }

    void wait_for(std::size_t item) {
        std::unique_lock lock(mutex_);
        auto& place = places_[item % places_.size()];
        changed_.wait(lock, [&] { return place.is_made; });
        if (const auto error = std::exchange(place.error, nullptr)) std::rethrow_exception(error);
    }

    void release(std::size_t item) {
        {
            const std::lock_guard lock(mutex_);
            places_[item % places_.size()].is_made = false;
            released_ = item + 1;
        }
        changed_.notify_all();
    }

private:
    struct Place {
        bool is_made = false;
        std::exception_ptr error;
    };

    void serve() {
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [&] {
                return is_closing_ || next_ == item_count_ || next_ < released_ + places_.size();
            });
            if (is_closing_ || next_ == item_count_) return;
            const auto item = next_++;
            lock.unlock();
            std::exception_ptr error;
            try {
                make_(item);
            } catch (...) {
                error = std::current_exception();
            }
            lock.lock();
            places_[item % places_.size()] = {true, error};
            changed_.notify_all();
        }
    }

    const std::size_t item_count_;
    std::vector<Place> places_;
    std::function<void(std::size_t)> make_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t next_ = 0;
    std::size_t released_ = 0;
    bool is_closing_ = false;
    std::vector<std::thread> threads_;
};

ReadAhead::ReadAhead(
    std::size_t item_count,
    std::size_t ahead,
    std::size_t threads,
    std::function<void(std::size_t)> make)
    : state_(std::make_unique<State>(item_count, ahead, threads, std::move(make))) {}

ReadAhead::~ReadAhead() = default;

void ReadAhead::wait_for(std::size_t item) {
    state_->wait_for(item);
}

void ReadAhead::release(std::size_t item) {
    state_->release(item);
}

}  // namespace ddprun::data
