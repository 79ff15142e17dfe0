// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/io_context.hpp>

namespace ddprun::server {

/// Runs the handlers of stores until the context is stopped or has no work left. One that ends
/// without memory (a connection that was being accepted, a page that was asked for) is lost, and
/// logged; the others go on.
void run_store_loop(boost::asio::io_context& io);

}  // namespace ddprun::server
