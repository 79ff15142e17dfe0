// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun::server {

/// All of `ddprun-rendezvous`: options, server, and the wait for SIGTERM, SIGINT or SIGHUP. These
/// signals detach: the server drains, and no job is stopped. Returns the exit code: 0 detached, 1
/// cannot serve, 2 wrong options. Requires: called from `main`, before any other thread.
int run_daemon(int argc, const char* const* argv);

}  // namespace ddprun::server
