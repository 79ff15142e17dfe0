// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/ctl/ctl_options.hpp"
#include "launcher/ctl/remote.hpp"

namespace ddprun::launcher::ctl {

/// Sends the command of the options to their server, over a connection on which both ends have
/// proved the secret, and waits for the answer until a deadline. Requires: the options have a
/// server.
ServerReply ask_server(const CtlOptions& options);

}  // namespace ddprun::launcher::ctl
