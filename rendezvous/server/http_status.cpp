// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/http_status.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

namespace ddprun::server {
namespace {

// Ordered: the page has the order in which it is documented.
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
        {"rank_because", node.rank_because.empty() ? Json(nullptr) : Json(node.rank_because)},
        {"ranks", std::move(ranks)},
        {"heard_ago_s", node.heard_ago_s},
    };
}

Json to_json(const coordinator::StoreWaitStatus& wait) {
    return {
        {"key", wait.key},
        {"more_keys", wait.more_keys},
        {"since_s", wait.since_s},
        {"ranks", wait.ranks},
        {"missing", wait.missing},
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
        {"round_because", job.round_because.empty() ? Json(nullptr) : Json(job.round_because)},
        {"restarts", {{"used", job.restarts_used}, {"max", job.max_restarts}}},
        {"world_size", job.world_size},
        {"node_count", job.node_count},
        {"nodes", std::move(nodes)},
        {"root_cause", job.root_cause.empty() ? Json(nullptr) : Json(job.root_cause)},
        {"store_wait", job.store_wait ? to_json(*job.store_wait) : Json(nullptr)},
    };
}

Json to_json(const StoreSurvey& stores) {
    auto waiting = Json::array();
    for (const auto& wait : stores.longest)
        waiting.push_back(
            {{"key", wait.key},
             {"more_keys", wait.more_keys},
             {"peer", wait.peer},
             {"since_s", wait.since_s}});
    return {
        {"requests", stores.requests},
        {"connections", stores.connections},
        {"keys", stores.keys},
        {"waits", stores.waits},
        {"waiting", std::move(waiting)},
    };
}

HttpResponse status_page(const StatusQuery& query, const ServerStatus& status) {
    auto jobs = Json::array();
    for (const auto& job : status.jobs)
        if (query.job.empty() || query.job == job.run_id) jobs.push_back(to_json(job));
    if (!query.job.empty() && jobs.empty())
        return {404, "text/plain; charset=utf-8", "no job of this id here\n"};
    const Json page = {
        {"version", status.version},
        {"uptime_s", status.uptime_s},
        {"jobs", std::move(jobs)},
        {"stores", status.stores ? to_json(*status.stores) : Json(nullptr)}};
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

/// The text format 0.0.4: families one after the other, each with its help, no sample twice.
class MetricsText {
public:
    void family(std::string_view name, std::string_view type, std::string_view help) {
        name_ = name;
        text_ += "# HELP " + name_ + ' ';
        text_.append(help).append("\n# TYPE ").append(name_ + ' ').append(type).append("\n");
    }
    void sample(std::uint64_t value) { text_ += name_ + ' ' + std::to_string(value) + '\n'; }
    void sample(std::string_view labels, std::uint64_t value) {
        text_ += name_ + '{' + std::string{labels} + "} " + std::to_string(value) + '\n';
    }
    void seconds(std::string_view labels, double value) {
        std::array<char, 32> digits{};
        const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
        text_ += name_ + '{' + std::string{labels} + "} ";
        text_.append(digits.data(), end.ptr).append("\n");
    }
    std::string take() { return std::move(text_); }

private:
    std::string name_;
    std::string text_;
};

/// Of jobs of the same id the newest: of each series there is one.
std::vector<const coordinator::JobStatus*> newest_of_each_id(const ServerStatus& status) {
    std::map<std::string_view, const coordinator::JobStatus*> newest;
    for (const auto& job : status.jobs)
        newest[job.run_id] = &job;
    std::vector<const coordinator::JobStatus*> jobs;
    jobs.reserve(newest.size());
    for (const auto& [id, job] : newest)
        jobs.push_back(job);
    return jobs;
}

HttpResponse metrics_page(const ServerStatus& status) {
    using coordinator::JobStatus;
    MetricsText text;
    text.family("ddprun_connections_total", "counter", "Connections accepted, by protocol.");
    text.sample("protocol=\"control\"", status.control_connections);
    text.sample("protocol=\"c10d\"", status.store_connections);
    text.sample("protocol=\"http\"", status.http_connections);
    text.family(
        "ddprun_rejected_total",
        "counter",
        "Connections that spoke no protocol of this port, and agents closed over a bound.");
    text.sample(status.rejected_connections);
    text.family("ddprun_agents", "gauge", "Agents connected now.");
    text.sample(status.agents);

    std::map<std::string, std::uint64_t> by_state;
    for (const auto& job : status.jobs)
        ++by_state[job.state];
    text.family("ddprun_jobs", "gauge", "Jobs known, by state.");
    for (const auto& [state, count] : by_state)
        text.sample("state=" + label(state), count);

    const auto jobs = newest_of_each_id(status);
    const auto of_jobs = [&](auto value) {
        for (const auto* job : jobs)
            text.sample("job=" + label(job->run_id), static_cast<std::uint64_t>(value(*job)));
    };
    const auto of_jobs_by = [&](std::string_view what, auto member) {
        for (const auto* job : jobs)
            for (const auto& [name, count] : job->*member)
                text.sample(
                    "job=" + label(job->run_id) + ',' + std::string{what} + '=' + label(name),
                    count);
    };
    // Numbered from 0, so one more than the number of the current round.
    text.family("ddprun_rounds_total", "counter", "Rounds a job has begun in this incarnation.");
    of_jobs([](const JobStatus& job) { return job.round + 1; });
    text.family(
        "ddprun_restarts_total",
        "counter",
        "Rounds that another one followed, by what ended them.");
    of_jobs_by("cause", &JobStatus::restarts_by_cause);
    text.family("ddprun_restart_budget", "gauge", "Failures of workers that a job survives.");
    of_jobs([](const JobStatus& job) { return job.max_restarts; });
    text.family("ddprun_restart_budget_used", "gauge", "How many of them it has survived.");
    of_jobs([](const JobStatus& job) { return job.restarts_used; });
    text.family("ddprun_nodes", "gauge", "Nodes of a job, by state.");
    of_jobs_by("state", &JobStatus::nodes_by_state);
    text.family("ddprun_workers", "gauge", "Workers of a job, by the state of their node.");
    of_jobs_by("state", &JobStatus::workers_by_state);
    text.family("ddprun_phase_seconds_total", "counter", "How long a job has been in each phase.");
    for (const auto* job : jobs)
        for (const auto& [phase, length] : job->seconds_by_phase)
            text.seconds("job=" + label(job->run_id) + ",phase=" + label(phase), length);
    if (status.stores) {
        text.family("ddprun_store_operations_total", "counter", "Requests to stores served here.");
        text.sample(status.stores->requests);
        text.family(
            "ddprun_store_refused_total",
            "counter",
            "Connections to stores closed over a bound or a request that cannot be answered.");
        text.sample(status.stores->refused_requests);
        text.family("ddprun_store_keys", "gauge", "Keys in them.");
        text.sample(status.stores->keys);
        text.family("ddprun_store_waits", "gauge", "Clients that wait for a key.");
        text.sample(status.stores->waits);
        text.family("ddprun_store_data_bytes", "gauge", "Keys, values and queues in them.");
        text.sample(status.stores->data_bytes);
        text.family(
            "ddprun_store_client_bytes",
            "gauge",
            "Incomplete requests, waits and unread replies of their clients.");
        text.sample(status.stores->client_bytes);
    }
    return {200, "text/plain; version=0.0.4; charset=utf-8", text.take()};
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
