// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/stack_views.hpp"

#include "agent/command/decision.hpp"
#include "agent/health/classify.hpp"
#include "agent/health/sampler.hpp"
#include "rendezvous/base/limits.hpp"

#include <boost/asio/steady_timer.hpp>

#include <memory>
#include <utility>

namespace ddprun::agent {

StackViews::StackViews(boost::asio::io_context& io, Calls calls)
    : io_(io),
      calls_(std::move(calls)) {}

void StackViews::show(int rank, int pid, Answer answer) {
    calls_.look([this, rank, pid, answer = std::move(answer)]() -> BlockingThread::Answer {
        return [this, rank, answer, sample = health::take_sample(pid)]() mutable {
            wait({rank, std::move(answer), std::move(sample), calls_.now()});
        };
    });
}

void StackViews::wait(First first) {
    const auto timer =
        std::make_shared<boost::asio::steady_timer>(io_, limits::stack_sample_interval);
    timer->async_wait([this, timer, first = std::move(first)](const auto& ec) mutable {
        if (!ec) look_again(std::move(first));
    });
}

void StackViews::look_again(First first) {
    calls_.look([this, first = std::move(first)]() -> BlockingThread::Answer {
        return [this, first, sample = health::take_sample(first.sample.pid)] {
            const auto between = calls_.now() - first.taken_at;
            const auto site = health::classify(first.sample, sample, between);
            first.answer(command::reply_to_stack(first.rank, sample, site));
        };
    });
}

}  // namespace ddprun::agent
