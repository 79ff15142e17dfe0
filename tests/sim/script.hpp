// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::sim {

/// Plays a story: commands, then `----`, then the record of what happened, any number of times.
/// Record lines begin with a digit. Returns the same text with the records as they are now: equal
/// to `text` if nothing has changed. A command that is invalid or does not succeed becomes a line
/// of the record that begins with `!`.
///
///   # comment
///   cluster nodes=a,b workers=1 restarts=1 nnodes=1:2 hosted_by=a late_nodes=at-restart
///     restart_delay=5 join_timeout=60 replacement_timeout=0 grace=30 max_losses=10 node_unit=2
///     holds=yes (workers that keep their processes)
///   until training | done | forming | running | round=2      start c
///   after 5s            finish                                crash a.0 signal=SEGV
///   exit a.0 code=3     signal a TERM                         break b (its connection)
///   kill b (agent)      stop b, continue b (agent)            switch_off b (machine)
///   suspend b, wake b (machine)
///   cut b, heal b       cut a b, heal a b (both ways)         cut a to=server, heal a to=server
///   stubborn a.0 (ignores SIGTERM)                            stick a.0, let_go a (unkillable)
///   kill server         restart server                        stop server, continue server
///   with elected=yes instead of a server: stop etcd, kill etcd, continue etcd, cut a etcd
std::string play(const std::string& text);

}  // namespace ddprun::sim
