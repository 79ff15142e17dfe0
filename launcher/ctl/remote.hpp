// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/ctl/ctl_options.hpp"
#include "launcher/ctl/outcome.hpp"
#include "rendezvous/control/connect_error.hpp"
#include "rendezvous/control/message.hpp"

#include <optional>
#include <string>
#include <variant>
#include <vector>

/// Commands that go to the rendezvous server from any machine: the messages, and the meaning of the
/// answers.
namespace ddprun::launcher::ctl {

/// `sender`: "alice@login1". Requires: the options have a server and a command that the server
/// performs.
control::JobCommand job_command_of(const CtlOptions& options, const std::string& sender);

/// The answer, or why there is none.
using ServerAnswer = std::variant<control::JobCommandAnswer, Outcome>;

/// The result of a command to a server.
struct ServerReply {
    ServerAnswer answer;
    /// The reports that came before the answer to `stacks`, ordered by rank.
    std::vector<control::RankReport> ranks = {};
};

/// The answer in this message of the server. `server`: the server's address, for texts.
ServerAnswer answer_in(control::ServerMessage message, const std::string& server);
/// The outcome after the connection has failed with this error.
Outcome outcome_of_failure(control::ConnectError error, const std::string& reason);
/// The outcome of a command that changes a job.
Outcome outcome_of(const control::JobCommandAnswer& answer, const std::string& run_id);

/// All jobs of the answer as a table or a list of objects. `server`: for the text when there is no
/// job.
Outcome shown_list(
    const control::JobCommandAnswer& answer, const std::string& server, bool is_json);
/// The only job of the answer.
Outcome shown_job(const control::JobCommandAnswer& answer, const std::string& server, bool is_json);

}  // namespace ddprun::launcher::ctl
