// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::sim {

/// Plays a story: commands, then `----`, then the record of what happened, as often as it likes.
/// Record lines begin with a digit. Returns the same text with the records as they are now: equal
/// to `text` if nothing has changed. What cannot be read or does not come about becomes a line of
/// the record that begins with `!`.
///
///   # comment
///   cluster nodes=a,b workers=1 restarts=1 nnodes=1:2 hosted_by=a late_nodes=at-restart
///     restart_delay=5
///   until training | done | forming | running | round=2      start c
///   after 5s            finish                                crash a.0 signal=SEGV
///   exit a.0 code=3     kill b     cut b     heal b           break b     signal a TERM
std::string play(const std::string& text);

}  // namespace ddprun::sim
