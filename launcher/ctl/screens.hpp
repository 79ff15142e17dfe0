// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/ctl/native_stacks.hpp"
#include "launcher/ctl/selection.hpp"
#include "rendezvous/base/time.hpp"

#include <optional>
#include <string>
#include <vector>

/// The output of `ddprunctl`. Foreign text is made printable in all of it.
namespace ddprun::launcher::ctl {

/// "12s", "4m10s", "2h13m", "3d4h".
std::string short_time(Duration length);

/// One line for each `ddprun`; `own_user` decides whether there is a column of users.
std::string list_text(const std::vector<FoundAgent>& agents, unsigned own_user);
/// A list of objects.
std::string list_json(const std::vector<FoundAgent>& agents);

/// The server's page about the job.
struct JobPage {
    /// The body of `/status?job=`; empty: there is none.
    std::string body;
    /// Why there is none.
    std::string problem = {};
};

/// Requires: at least one agent, each with its view.
std::string status_text(const std::vector<FoundAgent>& agents, const JobPage& page);
/// `job` is an object of `/status`, or null; `nodes` is as in the list.
std::string status_json(const std::vector<FoundAgent>& agents, const JobPage& page);

/// The only job of a page of this server.
std::string page_text(const std::string& server, const JobPage& page);

/// `native`: of the ranks of which it was read.
std::string stacks_text(
    const std::vector<control::RankReport>& ranks, const NativeByRank& native = {});
/// A list of objects.
std::string stacks_json(
    const std::vector<control::RankReport>& ranks, const NativeByRank& native = {});

/// {"done": true, "text": ...}, or {"done": false, "reason": ...}
std::string outcome_json(bool is_done, const std::string& text);

}  // namespace ddprun::launcher::ctl
