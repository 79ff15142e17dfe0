// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <boost/asio/io_context.hpp>

#include <sys/types.h>

#include <functional>
#include <memory>

namespace ddprun::agent {

/// Reports when a process has ended, if there is no descriptor to wait on (a container's filter
/// refuses pidfd_open, or descriptors have run out). A thread blocks in `waitid` for this pid; the
/// owner reaps the process. Used on the thread of its `io_context`.
class ExitWaiter {
public:
    /// `on_ended` is called once, on the thread of `io`, when the process is a zombie. It is not
    /// called after the waiter is destroyed; the waiter's thread stays until the process ends.
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
