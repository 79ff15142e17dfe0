// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <boost/asio/io_context.hpp>

#include <sys/types.h>

#include <functional>
#include <memory>

namespace ddprun::agent {

/// Reports when a process has ended, where there is no descriptor to wait on (a container's filter
/// refuses pidfd_open, or descriptors have run out): a thread blocks in `waitid` for this pid and
/// leaves the reaping to the owner. Used on the thread of its `io_context`.
class ExitWaiter {
public:
    /// `on_ended` is called once, on the thread of `io`; the process is a zombie then. Not after
    /// the waiter is gone; its thread stays until the process ends.
    static Result<ExitWaiter> start(
        boost::asio::io_context& io, pid_t pid, std::function<void()> on_ended);

    ExitWaiter(ExitWaiter&&) noexcept = default;
    ExitWaiter& operator=(ExitWaiter&&) = delete;
    ~ExitWaiter();

private:
    struct Shared;
    explicit ExitWaiter(std::shared_ptr<Shared> shared);

    std::shared_ptr<Shared> shared_;
};

}  // namespace ddprun::agent
