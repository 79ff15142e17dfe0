// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/ask_server.hpp"

#include "launcher/ctl/ctl_table.hpp"
#include "launcher/ctl/page_token.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/client/coordinator_client.hpp"
#include "rendezvous/tls/keys.hpp"

#include <boost/asio/io_context.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun::launcher::ctl {
namespace ask_server_ {
namespace {

/// Resolving, connecting, proving the secret, the command and its answer, for which the server may
/// have to wait for agents.
Duration longest_wait(const control::JobCommand& command) {
    using What = control::JobCommand::What;
    const bool is_for_agents = command.what == What::signal || command.what == What::stacks;
    return limits::resolve_timeout + limits::command_relay_timeout +
           (is_for_agents ? limits::worker_order_timeout : Duration{});
}

/// "alice@login1": the server shows it as stated, so variables are enough for the name.
std::string own_name() {
    std::string user = "user " + std::to_string(::getuid());
    for (const char* const variable : {"LOGNAME", "USER"})
        if (const char* const value = std::getenv(variable); value != nullptr && *value != '\0')
            user = value;
    std::array<char, limits::max_name_bytes + 1> host{};
    if (::gethostname(host.data(), host.size() - 1) != 0) return user;
    return user + '@' + host.data();
}

ServerReply sent(
    const Endpoint& endpoint, const tls::SecretSource& secret, const control::JobCommand& command) {
    using client::CoordinatorClient;
    const auto where = endpoint.to_string();
    boost::asio::io_context io;
    std::optional<ServerAnswer> answer;
    std::vector<control::RankReport> ranks;
    const auto end_with = [&](ServerAnswer with) {
        if (!answer) answer = std::move(with);
        io.stop();
    };
    std::optional<CoordinatorClient> connection;
    connection.emplace(
        io,
        endpoint,
        CoordinatorClient::Hooks{
            [](int) {},
            [&](const CoordinatorClient::Opened&) { connection->send(command); },
            [&](control::ServerMessage message) {
                auto* report = std::get_if<control::RankReport>(&message);
                if (report == nullptr || ranks.size() == limits::max_ordered_stacks)
                    return end_with(answer_in(std::move(message), where));
                ranks.push_back(std::move(*report));
            },
            [&](const CoordinatorClient::Closed& closed) {
                end_with(outcome_of_failure(closed.error, closed.reason));
            }},
        limits::command_answer_timeout,
        CoordinatorClient::Security{tls::control_key(secret.secrets.front()), secret.name()});
    const auto wait = longest_wait(command);
    io.run_for(wait);
    if (!answer)
        return {outcome_of_failure(
            control::ConnectError::no_answer,
            "no answer of " + where + " within " + seconds_text(wait))};
    std::sort(
        ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
    return {std::move(*answer), std::move(ranks)};
}

}  // namespace
}  // namespace ask_server_

ServerReply ask_server(const CtlOptions& options) {
    using namespace ask_server_;
    const auto& server = *options.server;
    const auto secret = find_secrets("--rdzv-secret-file", server.secret_file);
    if (!secret)
        return {Outcome{
            exit_code::usage,
            secret.error().context + "; a command to another machine needs the job's secret: give "
                                     "--rdzv-secret-file=PATH or DDPRUN_SECRET"}};
    return sent(server.endpoint, *secret, job_command_of(options, own_name()));
}

}  // namespace ddprun::launcher::ctl
