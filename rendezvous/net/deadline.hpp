// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>

namespace ddprun::net {

/// A time limit for a sequence of asynchronous steps. When it passes, `stop` is called once (to
/// close the socket that the steps wait for), and `has_passed` shows the coroutine why its step was
/// aborted.
///
///   Deadline deadline(executor, limits::handshake_timeout, [&] { close(socket); });
///   co_await ...;
///   if (deadline.has_passed()) co_return Failure{errc::timed_out, ...};
///
/// Used on one executor thread. Destroying it disarms it, also from inside `stop`.
class Deadline {
public:
    Deadline(boost::asio::any_io_executor executor, Duration after, std::function<void()> stop);
    ~Deadline();
    Deadline(const Deadline&) = delete;
    Deadline& operator=(const Deadline&) = delete;

    bool has_passed() const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace ddprun::net
