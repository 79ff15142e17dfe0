// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include <sys/types.h>

#include <functional>
#include <vector>

namespace ddprun::agent {

/// Reaps the orphans that a subreaper is given: grandchildren whose parent ended before them. Never
/// touches children that are watched elsewhere. Lives on the agent's thread.
class OrphanReaper {
public:
    /// `watched` returns, at the moment of the call, the pids that are waited for elsewhere.
    OrphanReaper(boost::asio::io_context& io, std::function<std::vector<pid_t>()> watched);

private:
    void wait();

    boost::asio::signal_set child_ended_;
    std::function<std::vector<pid_t>()> watched_;
};

}  // namespace ddprun::agent
