// SPDX-License-Identifier: Apache-2.0
#include "agent/process/orphan_reaper.hpp"

#include "agent/process/descendants.hpp"

#include <csignal>
#include <utility>

namespace ddprun::agent {

OrphanReaper::OrphanReaper(boost::asio::io_context& io, std::function<std::vector<pid_t>()> watched)
    : child_ended_(io, SIGCHLD),
      watched_(std::move(watched)) {
    wait();
}

void OrphanReaper::wait() {
    child_ended_.async_wait([this](const boost::system::error_code& ec, int) {
        if (ec) return;
        reap_orphans(watched_());
        wait();
    });
}

}  // namespace ddprun::agent
