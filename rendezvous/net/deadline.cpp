// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/deadline.hpp"

#include <utility>

namespace ddprun::net {

struct Deadline::State {
    State(boost::asio::any_io_executor executor, std::function<void()> on_passed)
        : timer(std::move(executor)),
          stop(std::move(on_passed)) {}

    boost::asio::steady_timer timer;
    std::function<void()> stop;
    bool has_passed = false;
    bool is_armed = true;
};

Deadline::Deadline(
    boost::asio::any_io_executor executor, Duration after, std::function<void()> stop)
    : state_(std::make_shared<State>(std::move(executor), std::move(stop))) {
    state_->timer.expires_after(after);
    state_->timer.async_wait([state = state_](const boost::system::error_code& ec) {
        // A timer that had already fired when it was cancelled still calls this handler.
        if (ec || !state->is_armed) return;
        state->has_passed = true;
        state->stop();
    });
}

Deadline::~Deadline() {
    state_->is_armed = false;
    state_->timer.cancel();
}

bool Deadline::has_passed() const {
    return state_->has_passed;
}

}  // namespace ddprun::net
