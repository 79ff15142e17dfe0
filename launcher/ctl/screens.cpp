// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/screens.hpp"

#include "launcher/ctl/table_text.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/printable.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace ddprun::launcher::ctl {
namespace {

// Ordered, so that fields have their documented order.
using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) {
    // Only ASCII is printed, so no character can move the cursor.
    return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

/// "8-15", "3"
std::string ranks_text(std::int64_t first, std::int64_t last) {
    const auto begin = std::to_string(first);
    return first == last ? begin : begin + '-' + std::to_string(last);
}

/// "used/max"
std::string restarts_text(const control::NodeView& view) {
    const int used = view.assignment ? view.assignment->restart_count : 0;
    return std::to_string(used) + '/' + std::to_string(view.max_restarts);
}

Row row_of(const FoundAgent& agent) {
    const auto pid = std::to_string(agent.socket.pid);
    if (!agent.view) return {"?", "?", "-", "-", "-", "-", "-", pid, printable_line(agent.problem)};
    const auto& view = *agent.view;
    Row row{printable_line(view.run_id), printable_line(view.state), "-", "-", "-"};
    if (const auto& round = view.assignment) {
        row[2] = std::to_string(round->round);
        row[3] = std::to_string(round->group_world_size) + '/' + std::to_string(view.nodes.max);
        row[4] = std::to_string(round->world_size);
    }
    row.push_back(restarts_text(view));
    row.push_back(short_time(view.since));
    row.push_back(pid);
    row.push_back(
        view.assignment ? (view.worker_count == 1 ? "rank " : "ranks ") +
                              ranks_text(
                                  view.assignment->rank_base,
                                  view.assignment->rank_base + view.worker_count - 1)
                        : printable_line(view.reason));
    return row;
}

Json json_of(const FoundAgent& agent) {
    if (!agent.view)
        return {
            {"run_id", nullptr},
            {"state", nullptr},
            {"pid", agent.socket.pid},
            {"user", agent.user},
            {"problem", agent.problem}};
    const auto& view = *agent.view;
    const auto& round = view.assignment;
    const auto or_null = [&](auto control::Assignment::*member) {
        return round ? Json((*round).*member) : Json(nullptr);
    };
    Json ranks = nullptr;
    if (round) ranks = {round->rank_base, round->rank_base + view.worker_count - 1};
    return {
        {"run_id", view.run_id},
        {"state", view.state},
        {"reason", view.reason.empty() ? Json(nullptr) : Json(view.reason)},
        {"round", or_null(&control::Assignment::round)},
        {"nodes", or_null(&control::Assignment::group_world_size)},
        {"nnodes", control::describe(view.nodes)},
        {"workers", or_null(&control::Assignment::world_size)},
        {"restarts", {{"used", round ? round->restart_count : 0}, {"max", view.max_restarts}}},
        {"state_s", in_seconds(view.since)},
        {"age_s", in_seconds(view.age)},
        {"pid", agent.socket.pid},
        {"user", agent.user},
        {"host", view.host},
        {"group_rank", or_null(&control::Assignment::group_rank)},
        {"ranks", std::move(ranks)},
        {"endpoint", view.endpoint.empty() ? Json(nullptr) : Json(view.endpoint)},
        {"program", view.program},
    };
}

Json list_of(const std::vector<FoundAgent>& agents) {
    auto list = Json::array();
    for (const auto& agent : agents)
        list.push_back(json_of(agent));
    return list;
}

/// The only job of the page; null: there is none.
Json job_of(const JobPage& page) {
    // Deeply nested values are left out, since the page comes from another machine.
    const auto is_shallow = [](int depth, Json::parse_event_t, Json&) {
        return depth <= limits::max_json_depth;
    };
    const auto json = Json::parse(page.body, is_shallow, /*allow_exceptions=*/false);
    const auto jobs = json.is_object() ? json.find("jobs") : json.end();
    if (!json.is_object() || jobs == json.end() || !jobs->is_array() || jobs->empty())
        return nullptr;
    return jobs->front().is_object() ? jobs->front() : Json(nullptr);
}

/// A field of a page that another release may have written: shown whatever its type is.
std::string shown(const Json& object, const char* field) {
    const auto found = object.find(field);
    if (found == object.end() || found->is_null()) return {};
    return printable_line(found->is_string() ? found->get<std::string>() : found->dump());
}

std::string shown_or_dash(const Json& object, const char* field) {
    const auto text = shown(object, field);
    return text.empty() ? "-" : text;
}

std::string ranks_of_node(const Json& node) {
    const auto ranks = node.find("ranks");
    const bool is_pair = ranks != node.end() && ranks->is_array() && ranks->size() == 2 &&
                         (*ranks)[0].is_number_integer() && (*ranks)[1].is_number_integer();
    if (!is_pair) return "-";
    // The page may be from another program, with arbitrary or too large numbers.
    return ranks_text((*ranks)[0].get<std::int64_t>(), (*ranks)[1].get<std::int64_t>());
}

/// "step 12, eval" of the node's first rank that has reported any.
std::string progress_of_node(const Json& node) {
    const auto list = node.find("progress");
    if (list == node.end() || !list->is_array() || list->empty() || !list->front().is_object())
        return {};
    const auto step = shown(list->front(), "step");
    const auto phase = shown(list->front(), "phase");
    return (step.empty() ? "" : "step " + step) + (step.empty() || phase.empty() ? "" : ", ") +
           phase;
}

std::string nodes_text(const Json& job) {
    const auto nodes = job.find("nodes");
    if (nodes == job.end() || !nodes->is_array()) return {};
    std::vector<Row> rows{{"HOST", "NODE", "ID", "STATE", "RANKS", "PID", "HEARD", "PROGRESS"}};
    for (const auto& node : *nodes) {
        if (!node.is_object()) continue;
        const auto heard = node.find("heard_ago_s");
        const bool is_heard = heard != node.end() && heard->is_number();
        rows.push_back(
            {shown(node, "host"),
             shown_or_dash(node, "group_rank"),
             shown_or_dash(node, "nonce"),
             shown(node, "state"),
             ranks_of_node(node),
             shown(node, "pid"),
             is_heard ? short_time(from_seconds(heard->get<double>())) + " ago" : "-",
             progress_of_node(node)});
    }
    return "\n" + table_text(rows);
}

std::string labelled(const char* label, const std::string& value) {
    if (value.empty()) return {};
    std::string text{label};
    text.resize(std::max<std::size_t>(text.size() + 1, 12), ' ');
    return text + value + "\n";
}

/// "64 workers on 8 nodes"
std::string world_text(const std::string& workers, const std::string& nodes) {
    return workers + (workers == "1" ? " worker on " : " workers on ") + nodes +
           (nodes == "1" ? " node" : " nodes");
}

std::string drained_text(const Json& job) {
    const auto hosts = job.find("drained_hosts");
    if (hosts == job.end() || !hosts->is_array()) return {};
    std::string text;
    for (const auto& one : *hosts)
        if (one.is_object())
            text += labelled("drained", shown(one, "host") + ", " + shown(one, "reason"));
    return text;
}

std::string job_text(const Json& job) {
    auto state = shown(job, "state");
    if (const auto round = shown(job, "round"); !round.empty() && round != "-1")
        state += ", round " + round;
    std::string restarts;
    if (const auto found = job.find("restarts"); found != job.end() && found->is_object())
        restarts = shown(*found, "used") + " of " + shown(*found, "max");
    auto text = labelled("state", state) + labelled("reason", shown(job, "reason")) +
                labelled("world", world_text(shown(job, "world_size"), shown(job, "node_count"))) +
                labelled("restarts", restarts) + labelled("root cause", shown(job, "root_cause"));
    text += labelled("hang", shown(job, "hang"));
    text += drained_text(job);
    const auto wait = job.find("store_wait");
    if (wait != job.end() && wait->is_object())
        text += labelled(
            "waits",
            "ranks " + shown(*wait, "ranks") + " for key " + shown(*wait, "key") + ", missing " +
                shown(*wait, "missing"));
    return text + nodes_text(job);
}

/// The data of the nodes here, used when the server does not answer.
std::string own_text(const std::vector<FoundAgent>& agents) {
    const auto& view = *agents.front().view;
    auto text = labelled("state", printable_line(view.state)) +
                labelled("reason", printable_line(view.reason));
    if (view.assignment)
        text += labelled("round", std::to_string(view.assignment->round)) +
                labelled(
                    "world",
                    world_text(
                        std::to_string(view.assignment->world_size),
                        std::to_string(view.assignment->group_world_size)));
    return text;
}

/// Each line two columns to the right.
std::string indented(std::string_view lines) {
    std::string text;
    for (const auto line : split(lines, '\n'))
        text += (line.empty() ? "" : "  " + printable_line(line)) + "\n";
    return text;
}

std::string native_text(const NativeStacks& native) {
    if (native.by.empty()) return "  no native stacks: " + printable_line(native.problem) + "\n";
    return "  native stacks, by " + native.by + ":\n" + indented(trimmed(native.text, "\n"));
}

Json native_json(const NativeStacks& native) {
    if (native.by.empty()) return {{"by", nullptr}, {"problem", native.problem}};
    return {{"by", native.by}, {"stacks", native.text}};
}

}  // namespace

std::string short_time(Duration length) {
    using namespace std::chrono;
    const auto seconds =
        std::max<std::int64_t>(duration_cast<std::chrono::seconds>(length).count(), 0);
    const auto two = [](std::int64_t big, const char* unit, std::int64_t small, const char* rest) {
        return std::to_string(big) + unit + (small > 0 ? std::to_string(small) + rest : "");
    };
    if (seconds < 60) return std::to_string(seconds) + "s";
    if (seconds < 3'600) return two(seconds / 60, "m", seconds % 60, "s");
    if (seconds < 86'400) return two(seconds / 3'600, "h", seconds / 60 % 60, "m");
    return two(seconds / 86'400, "d", seconds / 3'600 % 24, "h");
}

std::string list_text(const std::vector<FoundAgent>& agents, unsigned own_user) {
    std::vector<Row> rows{
        {"JOB", "STATE", "ROUND", "NODES", "WORKERS", "RESTARTS", "SINCE", "PID", "HERE"}};
    for (const auto& agent : agents)
        rows.push_back(row_of(agent));
    const bool has_others = std::any_of(
        agents.begin(), agents.end(), [&](const auto& agent) { return agent.user != own_user; });
    if (!has_others) return table_text(rows);
    rows.front().insert(rows.front().begin(), "USER");
    for (std::size_t i = 0; i < agents.size(); ++i)
        rows[i + 1].insert(rows[i + 1].begin(), std::to_string(agents[i].user));
    return table_text(rows);
}

std::string list_json(const std::vector<FoundAgent>& agents) {
    return dumped(list_of(agents));
}

std::string status_text(const std::vector<FoundAgent>& agents, const JobPage& page) {
    const auto& view = *agents.front().view;
    const auto job = job_of(page);
    auto text =
        labelled("job", printable_line(view.run_id) + ", " + printable_line(view.program)) +
        labelled("server", printable_line(view.endpoint)) +
        labelled(
            "started",
            short_time(view.age) + " ago here, in this state since " + short_time(view.since));
    if (!job.is_null()) return text + job_text(job);
    return text + own_text(agents) +
           labelled(
               "server says",
               "nothing: " + (page.problem.empty() ? "its page has no such job"
                                                   : printable_line(page.problem)));
}

std::string page_text(const std::string& server, const JobPage& page) {
    const auto job = job_of(page);
    if (job.is_null()) return {};
    return labelled("job", shown(job, "run_id")) + labelled("server", printable_line(server)) +
           job_text(job);
}

std::string status_json(const std::vector<FoundAgent>& agents, const JobPage& page) {
    auto job = job_of(page);
    const bool is_there = !job.is_null();
    Json json{{"job", std::move(job)}, {"nodes", list_of(agents)}};
    if (!is_there)
        json["problem"] = page.problem.empty() ? "the server's page has no such job" : page.problem;
    return dumped(json);
}

std::string stacks_text(const std::vector<control::RankReport>& ranks, const NativeByRank& native) {
    std::string text;
    for (const auto& view : ranks) {
        text += "rank " + std::to_string(view.rank);
        if (!view.stack) {
            text += ": " + printable_line(view.problem) + "\n";
            continue;
        }
        const auto& stack = *view.stack;
        text += ", pid " + std::to_string(stack.pid) + ": " + printable_line(stack.activity);
        if (!stack.site.empty()) text += " at " + printable_line(stack.site);
        text += "\n";
        if (!stack.detail.empty()) text += "  " + printable_line(stack.detail) + "\n";
        if (!stack.stacks.empty()) text += indented(stack.stacks);
        if (const auto found = native.find(view.rank); found != native.end())
            text += native_text(found->second);
    }
    return text;
}

std::string stacks_json(const std::vector<control::RankReport>& ranks, const NativeByRank& native) {
    auto list = Json::array();
    for (const auto& view : ranks) {
        if (!view.stack) {
            list.push_back({{"rank", view.rank}, {"pid", nullptr}, {"problem", view.problem}});
            continue;
        }
        const auto& stack = *view.stack;
        list.push_back(
            {{"rank", view.rank},
             {"pid", stack.pid},
             {"activity", stack.activity},
             {"site", stack.site},
             {"detail", stack.detail},
             {"stacks", stack.stacks}});
        if (const auto found = native.find(view.rank); found != native.end())
            list.back()["native"] = native_json(found->second);
    }
    return dumped(list);
}

std::string outcome_json(bool is_done, const std::string& text) {
    return dumped(Json{{"done", is_done}, {is_done ? "text" : "reason", text}});
}

}  // namespace ddprun::launcher::ctl
