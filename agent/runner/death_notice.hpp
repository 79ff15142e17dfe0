// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/death_note.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>

namespace ddprun::agent {

/// Writes deaths into the round's store, where workers asked to be told; adds no key where nobody
/// did. Calls back when they are there, or cannot be within limits::death_notice_timeout: they are
/// a courtesy to workers elsewhere, and nothing hangs on them.
void give_notice(boost::asio::io_context& io, DeathNote note, std::function<void()> on_done);

}  // namespace ddprun::agent
