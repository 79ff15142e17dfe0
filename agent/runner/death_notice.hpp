// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/death_note.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>

namespace ddprun::agent {

/// Writes deaths into the round's store, where workers asked for notices; else adds no key. Calls
/// back when they are there, or cannot be within limits::death_notice_timeout: they help workers
/// elsewhere, and nothing depends on them.
void give_notice(boost::asio::io_context& io, DeathNote note, std::function<void()> on_done);

}  // namespace ddprun::agent
