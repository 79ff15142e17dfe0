// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include <sys/types.h>

#include <functional>
#include <vector>

namespace ddprun::agent {

/// Buries the orphans that a subreaper is given: grandchildren whose parent ended before them.
/// Never touches the children that somebody watches. Lives on the agent's thread.
class OrphanReaper {
public:
    /// `watched` names the pids that others wait for, at the moment it is asked.
    OrphanReaper(boost::asio::io_context& io, std::function<std::vector<pid_t>()> watched);

private:
    void wait();

    boost::asio::signal_set child_ended_;
    std::function<std::vector<pid_t>()> watched_;
};

}  // namespace ddprun::agent
