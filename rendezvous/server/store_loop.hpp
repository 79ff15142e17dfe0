// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/io_context.hpp>

namespace ddprun::server {

/// Runs the handlers of stores until the context is stopped or has no work left. When memory runs
/// out in a handler, that handler (a connection that was being accepted, a page that was requested)
/// is lost and logged; the others continue.
void run_store_loop(boost::asio::io_context& io);

}  // namespace ddprun::server
