// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/http_status.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <map>
#include <string_view>

namespace ddprun::server {
namespace {

// Ordered: a person reads the page in the order in which it is documented.
using Json = nlohmann::ordered_json;

template <class Value>
Json or_null(const std::optional<Value>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json to_json(const coordinator::NodeStatus& node) {
    Json ranks = nullptr;
    if (node.first_rank && node.last_rank) ranks = {*node.first_rank, *node.last_rank};
    return {
        {"nonce", node.nonce},
        {"host", node.host},
        {"pid", node.pid},
        {"addr", node.addr},
        {"role", node.role},
        {"state", node.state},
        {"reason", node.reason},
        {"group_rank", or_null(node.group_rank)},
        {"ranks", std::move(ranks)},
        {"heard_ago_s", node.heard_ago_s},
    };
}

Json to_json(const coordinator::JobStatus& job) {
    auto nodes = Json::array();
    for (const auto& node : job.nodes)
        nodes.push_back(to_json(node));
    return {
        {"run_id", job.run_id},
        {"incarnation", job.incarnation},
        {"state", job.state},
        {"reason", job.reason},
        {"round", job.round},
        {"restarts", {{"used", job.restarts_used}, {"max", job.max_restarts}}},
        {"world_size", job.world_size},
        {"node_count", job.node_count},
        {"nodes", std::move(nodes)},
        {"first_cause", job.first_cause.empty() ? Json(nullptr) : Json(job.first_cause)},
    };
}

HttpResponse status_page(const StatusQuery& query, const ServerStatus& status) {
    auto jobs = Json::array();
    for (const auto& job : status.jobs)
        if (query.job.empty() || query.job == job.run_id) jobs.push_back(to_json(job));
    if (!query.job.empty() && jobs.empty())
        return {404, "text/plain; charset=utf-8", "no job of this id here\n"};
    const Json page = {
        {"version", status.version}, {"uptime_s", status.uptime_s}, {"jobs", std::move(jobs)}};
    // Names come from the network: what is not UTF-8 is replaced, never thrown.
    return {
        200, "application/json", page.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"};
}

std::string label(std::string_view value) {
    std::string text;
    for (const char c : value) {
        if (c == '\n') {
            text += "\\n";
            continue;
        }
        if (c == '"' || c == '\\') text += '\\';
        text += c;
    }
    return '"' + text + '"';
}

HttpResponse metrics_page(const ServerStatus& status) {
    std::string text;
    const auto family = [&](const char* name, const char* type, const char* help) {
        text += std::string{"# HELP "} + name + ' ' + help + "\n# TYPE " + name + ' ' + type + '\n';
    };
    const auto sample = [&](const std::string& name, std::uint64_t value) {
        text += name + ' ' + std::to_string(value) + '\n';
    };

    family("ddprun_connections_total", "counter", "Connections accepted, by protocol.");
    sample("ddprun_connections_total{protocol=\"control\"}", status.control_connections);
    sample("ddprun_connections_total{protocol=\"c10d\"}", status.store_connections);
    sample("ddprun_connections_total{protocol=\"http\"}", status.http_connections);
    family("ddprun_rejected_total", "counter", "Connections that spoke no protocol of this port.");
    sample("ddprun_rejected_total", status.rejected_connections);
    family("ddprun_agents", "gauge", "Agents connected now.");
    sample("ddprun_agents", status.agents);

    std::map<std::string, std::uint64_t> by_state;
    for (const auto& job : status.jobs)
        ++by_state[job.state];
    family("ddprun_jobs", "gauge", "Jobs known, by state.");
    for (const auto& [state, count] : by_state)
        sample("ddprun_jobs{state=" + label(state) + "}", count);
    // Numbered from 0, so one more than the number of the round at hand.
    family("ddprun_rounds_total", "counter", "Rounds a job has begun in this incarnation.");
    for (const auto& job : status.jobs)
        sample(
            "ddprun_rounds_total{job=" + label(job.run_id) + "}",
            static_cast<std::uint64_t>(job.round + 1));
    family("ddprun_restarts_total", "counter", "Restarts of a job's budget that are spent.");
    for (const auto& job : status.jobs)
        sample(
            "ddprun_restarts_total{job=" + label(job.run_id) + "}",
            static_cast<std::uint64_t>(job.restarts_used));
    return {200, "text/plain; version=0.0.4; charset=utf-8", std::move(text)};
}

std::string_view phrase_of(int status) {
    switch (status) {
        case 200: return "OK";
        case 404: return "Not Found";
        case 405: return "Method Not Allowed";
        default: return "Bad Request";
    }
}

}  // namespace

StatusQuery status_query(const HttpRequest& request) {
    StatusQuery query;
    if (const auto job = request.query.find("job"); job != request.query.end())
        query.job = job->second;
    if (const auto from = request.query.find("from"); from != request.query.end()) {
        const auto& text = from->second;
        std::from_chars(text.data(), text.data() + text.size(), query.first_node);
    }
    return query;
}

HttpResponse answer(const HttpRequest& request, const ServerStatus& status) {
    if (request.path == "/healthz") return {200, "text/plain; charset=utf-8", "ok\n"};
    if (request.path == "/status") return status_page(status_query(request), status);
    if (request.path == "/metrics") return metrics_page(status);
    return {404, "text/plain; charset=utf-8", "here are /healthz, /status and /metrics\n"};
}

HttpResponse answer(const HttpRefusal& refusal) {
    return {refusal.status, "text/plain; charset=utf-8", refusal.reason + "\n"};
}

std::string encode(const HttpResponse& response, bool with_body) {
    auto text = "HTTP/1.1 " + std::to_string(response.status) + ' ';
    text += phrase_of(response.status);
    text += "\r\nContent-Type: " + response.content_type;
    text += "\r\nContent-Length: " + std::to_string(response.body.size());
    if (response.status == 405) text += "\r\nAllow: GET, HEAD";
    text += "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff";
    text += "\r\nConnection: close\r\n\r\n";
    if (with_body) text += response.body;
    return text;
}

}  // namespace ddprun::server
