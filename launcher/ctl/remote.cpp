// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/remote.hpp"

#include "launcher/ctl/ctl_table.hpp"
#include "launcher/ctl/screens.hpp"
#include "launcher/ctl/table_text.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/printable.hpp"
#include "rendezvous/base/text.hpp"

#include <nlohmann/json.hpp>

#include <utility>
#include <vector>

namespace ddprun::launcher::ctl {
namespace remote {
namespace {

using Json = nlohmann::ordered_json;
using Answered = control::JobCommandAnswer::Outcome;
using What = control::JobCommand::What;

constexpr std::size_t most_named = 5;

std::string dumped(const Json& json) {
    return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

template <class T>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json json_of(const control::NodeSummary& node) {
    Json ranks = nullptr;
    if (node.first_rank && node.last_rank) ranks = Json::array({*node.first_rank, *node.last_rank});
    return {
        {"host", node.host},
        {"nonce", node.nonce},
        {"pid", node.pid},
        {"state", node.state},
        {"group_rank", or_null(node.group_rank)},
        {"ranks", std::move(ranks)},
        {"heard_ago_s", in_seconds(node.heard_ago)}};
}

/// The fields have the same names as in `/status`.
Json json_of(const control::JobSummary& job) {
    return {
        {"run_id", job.run_id},
        {"incarnation", job.incarnation},
        {"state", job.state},
        {"reason", job.reason},
        {"round", job.round},
        {"world_size", job.world_size},
        {"nnodes", job.nnodes},
        {"node_count", job.node_count},
        {"restarts", {{"used", job.restarts_used}, {"max", job.max_restarts}}},
        {"root_cause", job.root_cause.empty() ? Json(nullptr) : Json(job.root_cause)}};
}

Json json_with_nodes(const control::JobSummary& job) {
    auto json = json_of(job);
    json["nodes"] = Json::array();
    for (const auto& node : job.nodes)
        json["nodes"].push_back(json_of(node));
    json["drained_hosts"] = Json::array();
    for (const auto& [host, reason] : job.drained_hosts)
        json["drained_hosts"].push_back({{"host", host}, {"reason", reason}});
    return json;
}

Row row_of(const control::JobSummary& job) {
    const bool has_round = job.round >= 0;
    return {
        printable_line(job.run_id),
        printable_line(job.state),
        has_round ? std::to_string(job.round) : "-",
        std::to_string(job.node_count),
        has_round ? std::to_string(job.world_size) : "-",
        std::to_string(job.restarts_used) + '/' + std::to_string(job.max_restarts),
        printable_line(job.reason)};
}

std::string names_of(const control::JobCommandAnswer& answer) {
    return short_list(answer.jobs, {most_named}, [](const control::JobSummary& job) {
        return printable_line(job.run_id);
    });
}

std::string more_text(int count, const char* of_what) {
    return count > 0 ? "and " + std::to_string(count) + " more " + of_what + "\n" : std::string{};
}

/// What to do after a failed connection; empty: try again.
std::string advice(control::ConnectError error) {
    using Error = control::ConnectError;
    switch (error) {
        case Error::unresolved:
        case Error::refused:
        case Error::no_answer:
        case Error::wrong_protocol:
        case Error::wrong_version:
            return "; accepted is HOST[:PORT] of the job's rendezvous server: its --rdzv-endpoint, "
                   "or, "
                   "where nodes elect it, what `ddprunctl status` on a node shows as server";
        case Error::wrong_secret:
        case Error::needs_secret:
            return "; give the job's own by --rdzv-secret-file=PATH or DDPRUN_SECRET, if this is "
                   "the "
                   "rendezvous server of ddprun";
        case Error::not_encrypted:
            return "; it is no rendezvous server of ddprun, or its jobs have no secret: then run "
                   "ddprunctl on their nodes";
        case Error::lost: return {};
    }
    return {};
}

}  // namespace
}  // namespace remote

control::JobCommand job_command_of(const CtlOptions& options, const std::string& sender) {
    using remote::What;
    control::JobCommand command;
    command.run_id = options.run_id.value_or("");
    command.by = sender;
    std::visit(
        Overloaded{
            [&](const control::StopJob& stop) {
                command.what = What::stop;
                command.grace = stop.grace;
            },
            [&](const control::DrainNodes& drain) {
                command.what = What::drain;
                command.nodes = drain.nodes;
                command.is_forced = drain.is_forced;
            },
            [&](const control::UndrainNodes& undrain) {
                command.what = What::undrain;
                command.nodes = undrain.nodes;
            },
            [&](const control::ResizeJob& resize) {
                command.what = What::resize;
                command.range = resize.nodes;
            },
            [&](const control::SignalWorkers& order) {
                command.what = What::signal;
                command.signal = order.signal;
                command.ranks = order.ranks();
            },
            [&](const ShowStacks& wanted) {
                command.what = What::stacks;
                command.ranks = wanted.ranks;
            },
            [](const auto&) {},
        },
        options.command);
    return command;
}

ServerAnswer answer_in(control::ServerMessage message, const std::string& server) {
    if (auto* answer = std::get_if<control::JobCommandAnswer>(&message)) return std::move(*answer);
    if (std::holds_alternative<control::ProtocolError>(message))
        return Outcome{
            exit_code::refused,
            "the rendezvous server at " + server +
                " is of an older release of ddprun, which takes no command of another machine: "
                "run ddprunctl on a node of the job"};
    return Outcome{
        exit_code::no_answer, "the rendezvous server at " + server + " answers another question"};
}

Outcome outcome_of_failure(control::ConnectError error, const std::string& reason) {
    using Error = control::ConnectError;
    const bool is_about_secret = error == Error::wrong_secret || error == Error::needs_secret ||
                                 error == Error::not_encrypted;
    return {
        is_about_secret ? exit_code::not_allowed : exit_code::no_answer,
        printable_line(reason) + remote::advice(error)};
}

Outcome outcome_of(const control::JobCommandAnswer& answer, const std::string& run_id) {
    using remote::Answered;
    const auto text = printable_line(answer.text);
    const auto of_job = printable_line(run_id) + ": " + text;
    switch (answer.outcome) {
        case Answered::done: return {exit_code::done, of_job};
        case Answered::not_possible: return {exit_code::refused, of_job};
        case Answered::not_allowed: return {exit_code::not_allowed, text};
        case Answered::no_such_job: return {exit_code::no_such_job, text};
        case Answered::not_answered: return {exit_code::no_answer, of_job};
    }
    return {exit_code::no_answer, text};
}

Outcome shown_list(
    const control::JobCommandAnswer& answer, const std::string& server, bool is_json) {
    if (answer.outcome != remote::Answered::done) return outcome_of(answer, server);
    if (is_json) {
        auto list = remote::Json::array();
        for (const auto& job : answer.jobs)
            list.push_back(remote::json_of(job));
        return {exit_code::done, remote::dumped(list)};
    }
    if (answer.jobs.empty())
        return {exit_code::done, "no job of this secret runs on " + server + "\n"};
    std::vector<Row> rows{{"JOB", "STATE", "ROUND", "NODES", "WORKERS", "RESTARTS", "REASON"}};
    for (const auto& job : answer.jobs)
        rows.push_back(remote::row_of(job));
    return {exit_code::done, table_text(rows) + remote::more_text(answer.more_jobs, "jobs")};
}

Outcome shown_job(
    const control::JobCommandAnswer& answer, const std::string& server, bool is_json) {
    if (answer.outcome != remote::Answered::done) return outcome_of(answer, server);
    if (answer.jobs.empty())
        return {exit_code::no_such_job, "no job of this secret runs on " + server};
    if (answer.jobs.size() > 1)
        return {
            exit_code::usage,
            "several jobs are meant: " + remote::names_of(answer) + "; name one by its run id"};
    const auto& job = answer.jobs.front();
    const auto json = remote::json_with_nodes(job);
    if (is_json) return {exit_code::done, remote::dumped({{"job", json}})};
    const JobPage page{remote::Json{{"jobs", remote::Json::array({json})}}.dump(
        -1, ' ', false, remote::Json::error_handler_t::replace)};
    const int left = job.node_count - static_cast<int>(job.nodes.size());
    return {exit_code::done, page_text(server, page) + remote::more_text(left, "nodes")};
}

}  // namespace ddprun::launcher::ctl
