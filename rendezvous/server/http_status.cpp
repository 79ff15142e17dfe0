// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/http_status.hpp"

#include "rendezvous/base/printable.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/server/http_timeline.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

namespace ddprun::server {
namespace {

// Keeps the documented order of the fields.
using Json = nlohmann::ordered_json;

/// Foreign text, made printable, since the page may be read on a terminal.
Json shown(const std::string& text) {
    return printable(text);
}

Json shown_or_null(const std::string& text) {
    return text.empty() ? Json(nullptr) : shown(text);
}

template <class Value>
Json or_null(const std::optional<Value>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json to_json(const coordinator::ProgressStatus& worker) {
    return {
        {"rank", worker.rank},
        {"step", or_null(worker.step)},
        {"phase", shown_or_null(worker.phase)},
    };
}

Json to_json(const coordinator::NodeStatus& node) {
    Json ranks = nullptr;
    if (node.first_rank && node.last_rank) ranks = {*node.first_rank, *node.last_rank};
    auto progress = Json::array();
    for (const auto& worker : node.progress)
        progress.push_back(to_json(worker));
    return {
        {"nonce", node.nonce},
        {"host", shown(node.host)},
        {"pid", node.pid},
        {"addr", shown(node.addr)},
        {"role", shown(node.role)},
        {"state", shown(node.state)},
        {"reason", shown(node.reason)},
        {"group_rank", or_null(node.group_rank)},
        {"rank_because", shown_or_null(node.rank_because)},
        {"ranks", std::move(ranks)},
        {"progress", std::move(progress)},
        {"heard_ago_s", node.heard_ago_s},
    };
}

Json to_json(const coordinator::StoreWaitStatus& wait) {
    return {
        {"key", shown(wait.key)},
        {"more_keys", wait.more_keys},
        {"since_s", wait.since_s},
        {"ranks", shown(wait.ranks)},
        {"missing", shown(wait.missing)},
    };
}

Json to_json(const coordinator::GoodputStatus& goodput) {
    Json seconds;
    control::for_each_phase([&](control::GoodputPhase phase) {
        seconds[std::string{control::name_of(phase)}] = in_seconds(goodput.totals[phase]);
    });
    return {
        {"phase", shown_or_null(goodput.phase)},
        {"wall_s", in_seconds(goodput.totals.sum())},
        {"seconds", std::move(seconds)},
        {"step", or_null(goodput.step)},
        {"step_resets", goodput.reset_count},
    };
}

Json to_json(const coordinator::JobStatus& job) {
    auto nodes = Json::array();
    for (const auto& node : job.nodes)
        nodes.push_back(to_json(node));
    auto drained = Json::array();
    for (const auto& one : job.drained_hosts)
        drained.push_back({{"host", shown(one.host)}, {"reason", shown(one.reason)}});
    Json page{
        {"run_id", shown(job.run_id)},
        {"incarnation", shown(job.incarnation)},
        {"state", shown(job.state)},
        {"reason", shown(job.reason)},
        {"round", job.round},
        {"round_because", shown_or_null(job.round_because)},
        {"restarts", {{"used", job.restarts_used}, {"max", job.max_restarts}}},
        {"world_size", job.world_size},
        {"nnodes", job.nnodes},
        {"node_count", job.node_count},
        {"nodes", std::move(nodes)},
        {"drained_hosts", std::move(drained)},
        {"root_cause", shown_or_null(job.root_cause)},
        {"store_wait", job.store_wait ? to_json(*job.store_wait) : Json(nullptr)},
        {"hang", shown_or_null(job.hang)},
        {"goodput", to_json(job.goodput)},
    };
    if (job.epoch > 0) page["leader_epoch"] = job.epoch;
    if (!job.tenant.empty()) page["tenant"] = job.tenant;
    return page;
}

Json to_json(const StoreSurvey& stores) {
    auto waiting = Json::array();
    for (const auto& wait : stores.longest)
        waiting.push_back(
            {{"key", shown(wait.key)},
             {"more_keys", wait.more_keys},
             {"peer", shown(wait.peer)},
             {"since_s", wait.since_s}});
    return {
        {"requests", stores.requests},
        {"connections", stores.connections},
        {"keys", stores.keys},
        {"waits", stores.waits},
        {"waiting", std::move(waiting)},
    };
}

Json to_json(const coordinator::LeaderStatus& leader) {
    return {
        {"endpoint", shown(leader.endpoint)},
        {"epoch", leader.epoch},
        {"since_s", in_seconds(leader.since)},
    };
}

/// The value as text, with all lines but the first indented by `columns`, for a place inside a
/// page.
std::string indented(const Json& value, std::size_t columns) {
    // Names come from the network: bytes that are not UTF-8 are replaced and cause no exception.
    const auto text = value.dump(2, ' ', false, Json::error_handler_t::replace);
    std::string result;
    for (const char c : text) {
        result += c;
        // Newlines inside values are escaped, so this one separates lines.
        if (c == '\n') result.append(columns, ' ');
    }
    return result;
}

class StatusPage final : public JobPage {
public:
    StatusPage(StatusQuery query, std::size_t most_bytes)
        : query_(std::move(query)),
          most_bytes_(most_bytes) {}

    StatusQuery query() const override { return query_; }

    void add(const coordinator::JobStatus& job) override {
        const auto text = indented(to_json(job), 4);
        ++count_;
        if (left_out_ > 0 || jobs_.size() + text.size() > most_bytes_) {
            ++left_out_;
            return;
        }
        jobs_ += jobs_.empty() ? "\n    " : ",\n    ";
        jobs_ += text;
    }

    HttpResponse finish(const ServerStatus& status) override {
        if (!query_.job.empty() && count_ == 0)
            return {404, "text/plain; charset=utf-8", "no job of this id here\n"};
        auto page = "{\n  \"version\": " + indented(Json(status.version), 2) +
                    ",\n  \"uptime_s\": " + indented(Json(status.uptime_s), 2) +
                    leader_field(status) + ",\n  \"jobs\": [" + jobs_ +
                    (jobs_.empty() ? "]" : "\n  ]");
        if (left_out_ > 0) page += ",\n  \"jobs_left_out\": " + std::to_string(left_out_);
        page += ",\n  \"stores\": ";
        page += status.stores ? indented(to_json(*status.stores), 2) : "null";
        return {200, "application/json", page + "\n}\n"};
    }

private:
    static std::string leader_field(const ServerStatus& status) {
        if (!status.is_elected) return {};
        return ",\n  \"leader\": " +
               indented(status.leader ? to_json(*status.leader) : Json(nullptr), 2);
    }

    StatusQuery query_;
    std::size_t most_bytes_;
    std::string jobs_;
    std::size_t count_ = 0;
    std::size_t left_out_ = 0;
};

std::string label(std::string_view value) {
    std::string text;
    for (const char c : printable(value)) {
        if (c == '\n') {
            text += "\\n";
            continue;
        }
        if (c == '"' || c == '\\') text += '\\';
        text += c;
    }
    return '"' + text + '"';
}

struct Family {
    std::string_view name;
    std::string_view type;
    std::string_view help;
};

std::string header(const Family& family) {
    const std::string name{family.name};
    return "# HELP " + name + ' ' + std::string{family.help} + "\n# TYPE " + name + ' ' +
           std::string{family.type} + '\n';
}

std::string sample(const Family& family, const std::string& labels, const std::string& value) {
    auto line = std::string{family.name};
    if (!labels.empty()) line += '{' + labels + '}';
    return line + ' ' + value + '\n';
}

std::string number(double value) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    return {digits.data(), end.ptr};
}

/// A family of metrics with one or several samples for each job.
struct JobFamily {
    Family family;
    void (*add)(std::string& text, const Family& family, const coordinator::JobStatus& job);
};

std::string of_job(const coordinator::JobStatus& job) {
    const auto series = "job=" + label(job.run_id);
    return job.tenant.empty() ? series : series + ",tenant=" + label(job.tenant);
}

template <auto member>
void add_by(
    std::string& text,
    const Family& family,
    const coordinator::JobStatus& job,
    std::string_view what) {
    for (const auto& [name, count] : job.*member)
        text += sample(
            family,
            of_job(job) + ',' + std::string{what} + '=' + label(name),
            std::to_string(count));
}

constexpr std::array job_families{
    // Rounds are numbered from 0, so the count is one more than the current round.
    JobFamily{
        {"ddprun_rounds_total", "counter", "Rounds a job has begun in this incarnation."},
        [](auto& text, const auto& family, const auto& job) {
            text += sample(family, of_job(job), std::to_string(std::int64_t{job.round} + 1));
        }},
    JobFamily{
        {"ddprun_restarts_total",
         "counter",
         "Rounds that another one followed, by what ended them."},
        [](auto& text, const auto& family, const auto& job) {
            add_by<&coordinator::JobStatus::restarts_by_cause>(text, family, job, "cause");
        }},
    JobFamily{
        {"ddprun_hangs_total",
         "counter",
         "Times that no rank went on, or some kept the others waiting."},
        [](auto& text, const auto& family, const auto& job) {
            text += sample(family, of_job(job), std::to_string(job.hang_count));
        }},
    JobFamily{
        {"ddprun_restart_budget", "gauge", "Failures of workers that a job survives."},
        [](auto& text, const auto& family, const auto& job) {
            text += sample(family, of_job(job), std::to_string(job.max_restarts));
        }},
    JobFamily{
        {"ddprun_restart_budget_used", "gauge", "How many of them it has survived."},
        [](auto& text, const auto& family, const auto& job) {
            text += sample(family, of_job(job), std::to_string(job.restarts_used));
        }},
    JobFamily{
        {"ddprun_leader_epoch", "gauge", "How often the job has had another leader, by election."},
        [](auto& text, const auto& family, const auto& job) {
            if (job.epoch > 0) text += sample(family, of_job(job), std::to_string(job.epoch));
        }},
    JobFamily{
        {"ddprun_nodes", "gauge", "Nodes of a job, by state."},
        [](auto& text, const auto& family, const auto& job) {
            add_by<&coordinator::JobStatus::nodes_by_state>(text, family, job, "state");
        }},
    JobFamily{
        {"ddprun_workers", "gauge", "Workers of a job, by the state of their node."},
        [](auto& text, const auto& family, const auto& job) {
            add_by<&coordinator::JobStatus::workers_by_state>(text, family, job, "state");
        }},
    JobFamily{
        {"ddprun_phase_seconds_total", "counter", "How long a job has been in each phase."},
        [](auto& text, const auto& family, const auto& job) {
            for (const auto& [phase, length] : job.seconds_by_phase)
                text += sample(family, of_job(job) + ",phase=" + label(phase), number(length));
        }},
    JobFamily{
        {"ddprun_goodput_seconds_total",
         "counter",
         "What the time of a job has gone into, without what is undecided."},
        [](auto& text, const auto& family, const auto& job) {
            if (!job.goodput.decided) return;
            control::for_each_phase([&](control::GoodputPhase phase) {
                text += sample(
                    family,
                    of_job(job) + ",phase=" + label(control::name_of(phase)),
                    number(in_seconds((*job.goodput.decided)[phase])));
            });
        }},
    JobFamily{
        {"ddprun_step", "gauge", "The last step that all workers of a job have done."},
        [](auto& text, const auto& family, const auto& job) {
            if (job.goodput.step)
                text += sample(family, of_job(job), std::to_string(*job.goodput.step));
        }},
};

/// Writes Prometheus' text format 0.0.4: all samples of a family together after its help text, and
/// no sample twice.
class MetricsPage final : public JobPage {
public:
    explicit MetricsPage(std::size_t most_bytes) : most_bytes_(most_bytes) {}

    /// No nodes are listed: samples need only counts, which include all nodes.
    StatusQuery query() const override { return {"", std::numeric_limits<std::size_t>::max()}; }

    void add(const coordinator::JobStatus& job) override {
        ++by_state_[job.state];
        // A series must not appear twice, so only the newest job of an id has samples.
        if (!job.is_newest) return;
        if (size_ > most_bytes_) {
            ++left_out_;
            return;
        }
        // Skips a job whose id has samples already: it became the newest job after the page was
        // begun. Leaves out a job whose printed id equals that of another id.
        const auto [same, is_first] = written_.emplace(of_job(job), job.run_id);
        if (!is_first) {
            if (same->second != job.run_id) ++left_out_;
            return;
        }
        for (std::size_t i = 0; i < job_families.size(); ++i) {
            const auto before = samples_[i].size();
            job_families[i].add(samples_[i], job_families[i].family, job);
            size_ += samples_[i].size() - before;
        }
    }

    HttpResponse finish(const ServerStatus& status) override {
        constexpr Family connections{
            "ddprun_connections_total", "counter", "Connections accepted, by protocol."};
        constexpr Family jobs{"ddprun_jobs", "gauge", "Jobs known, by state."};
        auto text = header(connections);
        const auto of_protocol = [&](const char* protocol, std::uint64_t count) {
            text += sample(connections, std::string{"protocol="} + protocol, std::to_string(count));
        };
        of_protocol("\"control\"", status.control_connections);
        of_protocol("\"c10d\"", status.store_connections);
        of_protocol("\"http\"", status.http_connections);
        const auto one = [&](const Family& family, std::uint64_t count) {
            text += header(family) + sample(family, "", std::to_string(count));
        };
        one({"ddprun_rejected_total",
             "counter",
             "Connections that spoke no protocol of this port, and agents closed over a bound."},
            status.rejected_connections);
        one({"ddprun_agents", "gauge", "Agents connected now."}, status.agents);
        text += header(jobs);
        for (const auto& [state, count] : by_state_)
            text += sample(jobs, "state=" + label(state), std::to_string(count));
        one({"ddprun_jobs_left_out",
             "gauge",
             "Jobs without samples: the page would be too long, or another id is written alike."},
            left_out_);
        for (std::size_t i = 0; i < job_families.size(); ++i)
            text += header(job_families[i].family) + samples_[i];
        if (const auto& stores = status.stores) {
            one({"ddprun_store_operations_total", "counter", "Requests to stores served here."},
                stores->requests);
            one({"ddprun_store_refused_total",
                 "counter",
                 "Connections to stores closed over a bound or a request that cannot be answered."},
                stores->refused_requests);
            one({"ddprun_store_keys", "gauge", "Keys in them."}, stores->keys);
            one({"ddprun_store_waits", "gauge", "Clients that wait for a key."}, stores->waits);
            one({"ddprun_store_data_bytes", "gauge", "Keys, values and queues in them."},
                stores->data_bytes);
            one({"ddprun_store_client_bytes",
                 "gauge",
                 "Incomplete requests, waits and unread replies of their clients."},
                stores->client_bytes);
        }
        return {200, "text/plain; version=0.0.4; charset=utf-8", std::move(text)};
    }

private:
    std::size_t most_bytes_;
    std::map<std::string, std::uint64_t> by_state_;
    /// The ids of jobs that have samples, by their labels.
    std::map<std::string, std::string> written_;
    std::array<std::string, job_families.size()> samples_;
    std::size_t size_ = 0;
    std::size_t left_out_ = 0;
};

/// The page loads nothing from elsewhere, sends nothing elsewhere, and is no part of another page.
constexpr std::string_view content_security_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

std::string_view phrase_of(int status) {
    switch (status) {
        case 200: return "OK";
        case 304: return "Not Modified";
        case 401: return "Unauthorized";
        case 404: return "Not Found";
        case 405: return "Method Not Allowed";
        case 503: return "Service Unavailable";
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

std::unique_ptr<JobPage> job_page(const HttpRequest& request, std::size_t most_bytes) {
    if (request.path == "/status")
        return std::make_unique<StatusPage>(status_query(request), most_bytes);
    if (request.path == "/metrics") return std::make_unique<MetricsPage>(most_bytes);
    if (request.path == "/timeline") return timeline_page(request);
    return nullptr;
}

HttpResponse plain_answer(const HttpRequest& request) {
    if (request.path == "/healthz") return {200, "text/plain; charset=utf-8", "ok\n"};
    if (request.path == "/timeline")
        return {400, "text/plain; charset=utf-8", "/timeline?job=ID&from=N: N is 0 or more\n"};
    return {
        404,
        "text/plain; charset=utf-8",
        "here are /, /healthz, /status, /timeline and /metrics\n"};
}

HttpResponse members_only_answer() {
    return {
        401,
        "text/plain; charset=utf-8",
        "this server has a secret: its pages are for the user that started it, on this machine, "
        "and for requests with 'Authorization: Bearer TOKEN'; ddprunctl token prints it\n"};
}

HttpResponse unchanged_answer(const HttpResponse& page) {
    return {304, page.content_type, {}, page.etag};
}

HttpResponse busy_answer() {
    return {503, "text/plain; charset=utf-8", "too many pages are being read; try again\n"};
}

HttpResponse answer(const HttpRefusal& refusal) {
    return {refusal.status, "text/plain; charset=utf-8", refusal.reason + "\n"};
}

std::string encode_head(const HttpResponse& response, std::string_view date) {
    auto text = "HTTP/1.1 " + std::to_string(response.status) + ' ';
    text += phrase_of(response.status);
    text += "\r\nDate: ";
    text += date;
    text += "\r\nContent-Type: " + response.content_type;
    // Left out of a 304, where the field would mean the length of the whole page.
    if (response.status != 304)
        text += "\r\nContent-Length: " + std::to_string(response.body.size());
    if (!response.etag.empty()) text += "\r\nETag: " + response.etag;
    if (response.status == 401) text += "\r\nWWW-Authenticate: Bearer realm=\"ddprun\"";
    if (response.status == 405) text += "\r\nAllow: GET, HEAD";
    if (response.status == 503) text += "\r\nRetry-After: 1";
    if (response.content_type.starts_with("text/html")) {
        text += "\r\nContent-Security-Policy: ";
        text += content_security_policy;
        text += "\r\nReferrer-Policy: no-referrer";
    }
    text += response.etag.empty() ? "\r\nCache-Control: no-store" : "\r\nCache-Control: no-cache";
    text += "\r\nX-Content-Type-Options: nosniff";
    text += "\r\nConnection: close\r\n\r\n";
    return text;
}

}  // namespace ddprun::server
