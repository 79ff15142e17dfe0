// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/http_status.hpp"

#include <doctest/doctest.h>

#include <charconv>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace ddprun::server {
namespace {

HttpRequest get(std::string path, std::map<std::string, std::string> query = {}) {
    return {HttpRequest::Method::get, std::move(path), std::move(query)};
}

/// All that the pages show.
struct Shown {
    ServerStatus server;
    std::vector<coordinator::JobStatus> jobs;
};

/// Answers with the jobs that Coordinator::status_turn would select.
HttpResponse answer(
    const HttpRequest& request,
    const Shown& shown,
    std::size_t most_bytes = limits::max_page_bytes) {
    const auto page = job_page(request, most_bytes);
    if (!page) return plain_answer(request);
    const auto wanted = page->query().job;
    for (const auto& job : shown.jobs)
        if (wanted.empty() || wanted == job.run_id) page->add(job);
    return page->finish(shown.server);
}

Shown two_jobs() {
    coordinator::NodeStatus node;
    node.nonce = "0011";
    node.host = "node1";
    node.pid = 42;
    node.addr = "10.0.0.1";
    node.role = "default";
    node.state = "running";
    node.group_rank = 0;
    node.rank_because = "node rank 0 was asked for";
    node.first_rank = 0;
    node.last_rank = 3;
    node.progress = {{0, 12, "eval"}, {2, std::nullopt, "train"}, {3, 7, ""}};
    node.heard_ago_s = 0.5;

    coordinator::JobStatus training;
    training.run_id = "train";
    training.incarnation = "ab";
    training.state = "running";
    training.reason = "all 1 nodes run";
    training.round = 2;
    training.round_because = "node node2 was lost";
    training.restarts_used = 1;
    training.max_restarts = 3;
    training.world_size = 4;
    training.node_count = 1;
    training.nnodes = "1:2";
    training.nodes = {node};
    training.drained_hosts = {{"node5", "drained by ddprunctl"}};
    training.hang = "the job hangs";
    training.hang_count = 2;
    training.goodput.totals[control::GoodputPhase::productive] = std::chrono::seconds{60};
    training.goodput.decided = training.goodput.totals;
    training.goodput.totals[control::GoodputPhase::redone] = std::chrono::milliseconds{2500};
    training.goodput.phase = "redone";
    training.goodput.step = 41;
    training.store_wait = {"ready/4", 2, 31.5, "0-2", "rank 3 (node1) is not connected"};
    training.nodes_by_state = {{"running", 1}};
    training.workers_by_state = {{"running", 4}};
    training.restarts_by_cause = {{"node_lost", 1}, {"worker_failed", 1}};
    training.seconds_by_phase = {{"forming", 0.25}, {"running", 3600}, {"draining", 1.5}};

    coordinator::JobStatus waiting;
    waiting.run_id = "say \"hi\"\n";
    waiting.state = "forming";

    Shown shown;
    shown.jobs = {training, waiting};
    auto& status = shown.server;
    status.version = "1.2.3";
    status.uptime_s = 1.5;
    status.control_connections = 7;
    status.rejected_connections = 2;
    status.agents = 1;
    status.stores = StoreSurvey{12, 4, 2, 3, 1, 500, 60, {{"ready/4", 2, "10.0.0.2:5000", 1.5}}};
    return shown;
}

bool has_line(const std::string& text, const std::string& line) {
    return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST_CASE("the status page shows jobs, nodes and ranks in the documented order") {
    const auto response = answer(get("/status", {{"job", "train"}}), two_jobs());

    CHECK(response.status == 200);
    CHECK(response.content_type == "application/json");
    CHECK(response.body == R"({
  "version": "1.2.3",
  "uptime_s": 1.5,
  "jobs": [
    {
      "run_id": "train",
      "incarnation": "ab",
      "state": "running",
      "reason": "all 1 nodes run",
      "round": 2,
      "round_because": "node node2 was lost",
      "restarts": {
        "used": 1,
        "max": 3
      },
      "world_size": 4,
      "nnodes": "1:2",
      "node_count": 1,
      "nodes": [
        {
          "nonce": "0011",
          "host": "node1",
          "pid": 42,
          "addr": "10.0.0.1",
          "role": "default",
          "state": "running",
          "reason": "",
          "group_rank": 0,
          "rank_because": "node rank 0 was asked for",
          "ranks": [
            0,
            3
          ],
          "progress": [
            {
              "rank": 0,
              "step": 12,
              "phase": "eval"
            },
            {
              "rank": 2,
              "step": null,
              "phase": "train"
            },
            {
              "rank": 3,
              "step": 7,
              "phase": null
            }
          ],
          "heard_ago_s": 0.5
        }
      ],
      "drained_hosts": [
        {
          "host": "node5",
          "reason": "drained by ddprunctl"
        }
      ],
      "root_cause": null,
      "store_wait": {
        "key": "ready/4",
        "more_keys": 2,
        "since_s": 31.5,
        "ranks": "0-2",
        "missing": "rank 3 (node1) is not connected"
      },
      "hang": "the job hangs",
      "goodput": {
        "phase": "redone",
        "wall_s": 62.5,
        "seconds": {
          "productive": 60.0,
          "redone": 2.5,
          "saving": 0.0,
          "hung": 0.0,
          "first_step": 0.0,
          "starting": 0.0,
          "forming": 0.0,
          "draining": 0.0,
          "down": 0.0,
          "unmeasured": 0.0
        },
        "step": 41,
        "step_resets": 0
      }
    }
  ],
  "stores": {
    "requests": 12,
    "connections": 2,
    "keys": 3,
    "waits": 1,
    "waiting": [
      {
        "key": "ready/4",
        "more_keys": 2,
        "peer": "10.0.0.2:5000",
        "since_s": 1.5
      }
    ]
  }
}
)");
}

TEST_CASE("without a job all jobs are shown, and an unknown one is not found") {
    CHECK(answer(get("/status"), two_jobs()).body.find("say") != std::string::npos);
    CHECK(answer(get("/status", {{"job", "other"}}), two_jobs()).status == 404);
    CHECK(answer(get("/status"), Shown{}).body.find("\"jobs\": []") != std::string::npos);
}

TEST_CASE("jobs that would make a page too long are left out and counted") {
    auto many = two_jobs();
    many.jobs.front().drained_hosts.clear();
    for (int i = 0; i < 100; ++i)
        many.jobs.push_back(many.jobs.front());
    const auto whole = answer(get("/status"), many);
    CHECK(whole.body.find("left_out") == std::string::npos);

    const auto page = answer(get("/status"), many, 5'000);
    CHECK(page.body.size() < 6'500);
    CHECK(page.body.find("\"jobs_left_out\": 9") != std::string::npos);

    for (std::size_t i = 0; i < many.jobs.size(); ++i)
        many.jobs[i].run_id = std::to_string(i);
    const auto metrics = answer(get("/metrics"), many, 3'000).body;
    CHECK(has_line(metrics, "ddprun_jobs{state=\"running\"} 101"));
    CHECK_FALSE(has_line(metrics, "ddprun_jobs_left_out 0"));
    CHECK(metrics.size() < 10'000);
}

TEST_CASE("a name that is not UTF-8 does not break the page") {
    auto status = two_jobs();
    status.jobs[0].run_id = "\xff\xfe";

    CHECK(answer(get("/status"), status).status == 200);
}

TEST_CASE("the query names a job and a first node") {
    CHECK(status_query(get("/status")) == StatusQuery{"", 0});
    CHECK(status_query(get("/status", {{"job", "a"}, {"from", "1000"}})) == StatusQuery{"a", 1000});
    CHECK(status_query(get("/status", {{"from", "-1"}})) == StatusQuery{"", 0});
    CHECK(status_query(get("/status", {{"from", "99999999999999999999999"}})) == StatusQuery{});
}

TEST_CASE("metrics count connections, jobs, rounds and restarts") {
    const auto text = answer(get("/metrics"), two_jobs()).body;

    CHECK(has_line(text, "ddprun_connections_total{protocol=\"control\"} 7"));
    CHECK(has_line(text, "ddprun_rejected_total 2"));
    CHECK(has_line(text, "ddprun_agents 1"));
    CHECK(has_line(text, "ddprun_jobs{state=\"forming\"} 1"));
    CHECK(has_line(text, "ddprun_rounds_total{job=\"train\"} 3"));
    CHECK(has_line(text, "ddprun_rounds_total{job=\"say \\\"hi\\\"\\n\"} 0"));
    CHECK(has_line(text, "ddprun_restarts_total{job=\"train\",cause=\"node_lost\"} 1"));
    CHECK(has_line(text, "ddprun_restart_budget{job=\"train\"} 3"));
    CHECK(has_line(text, "ddprun_restart_budget_used{job=\"train\"} 1"));
    CHECK(has_line(text, "ddprun_store_operations_total 12"));
    CHECK(has_line(text, "ddprun_store_keys 3"));
    CHECK(has_line(text, "ddprun_store_waits 1"));
    CHECK(has_line(text, "ddprun_store_refused_total 4"));
    CHECK(has_line(text, "ddprun_store_data_bytes 500"));
    CHECK(has_line(text, "ddprun_store_client_bytes 60"));
    CHECK(has_line(text, "ddprun_nodes{job=\"train\",state=\"running\"} 1"));
    CHECK(has_line(text, "ddprun_workers{job=\"train\",state=\"running\"} 4"));
    CHECK(has_line(text, "ddprun_phase_seconds_total{job=\"train\",phase=\"forming\"} 0.25"));
    // A counter includes only the part that no later report changes.
    CHECK(has_line(text, "ddprun_goodput_seconds_total{job=\"train\",phase=\"productive\"} 60"));
    CHECK(has_line(text, "ddprun_goodput_seconds_total{job=\"train\",phase=\"redone\"} 0"));
    CHECK(has_line(text, "ddprun_step{job=\"train\"} 41"));
    // For the other job nothing is decided.
    CHECK(text.find("ddprun_goodput_seconds_total{job=\"say") == std::string::npos);
}

/// Reads the text format as Prometheus does, with the same errors.
class MetricsReader {
public:
    explicit MetricsReader(const std::string& text) : rest_(text) {
        if (!text.ends_with('\n')) complain("the last line has no end");
        while (!rest_.empty()) {
            const auto end = rest_.find('\n');
            line_ = rest_.substr(0, end);
            rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
            if (line_.starts_with("# HELP "))
                begin_family(line_.substr(7));
            else if (line_.starts_with("# TYPE "))
                read_type(line_.substr(7));
            else
                read_sample(line_);
        }
    }

    const std::vector<std::string>& complaints() const { return complaints_; }
    /// By name and labels as they were written, unescaped.
    const std::map<std::string, double>& samples() const { return samples_; }

private:
    static bool is_name_character(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_';
    }

    void complain(const std::string& about) {
        complaints_.push_back(about + ": " + std::string{line_});
    }

    void begin_family(std::string_view text) {
        family_ = text.substr(0, text.find(' '));
        has_type_ = false;
        if (!families_.insert(family_).second) complain("a family begins twice");
        if (text.find(' ') == std::string_view::npos) complain("no help");
    }

    void read_type(std::string_view text) {
        const auto space = text.find(' ');
        if (text.substr(0, space) != family_) complain("the type of another family");
        const auto type = text.substr(space + 1);
        if (type != "counter" && type != "gauge") complain("no known type");
        if (type == "counter" && !family_.ends_with("_total")) complain("a counter ends in _total");
        has_type_ = true;
    }

    void read_sample(std::string_view text) {
        std::size_t at = 0;
        while (at < text.size() && is_name_character(text[at]))
            ++at;
        auto series = std::string{text.substr(0, at)};
        if (series != family_ || !has_type_) complain("a sample outside its family");
        if (at < text.size() && text[at] == '{') at = read_labels(text, at + 1, series);
        if (at >= text.size() || text[at] != ' ') return complain("no value");
        double value = 0;
        const auto number = text.substr(at + 1);
        const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
        if (read.ec != std::errc{} || read.ptr != number.data() + number.size())
            complain("no number");
        if (!samples_.emplace(series, value).second) complain("a sample comes twice");
    }

    std::size_t read_labels(std::string_view text, std::size_t at, std::string& series) {
        series += '{';
        for (; at < text.size() && text[at] != '}'; ++at) {
            while (at < text.size() && is_name_character(text[at]))
                series += text[at++];
            if (text.substr(at, 2) != "=\"") complain("no label");
            series += '=';
            for (at += 2; at < text.size() && text[at] != '"'; ++at) {
                if (text[at] == '\\') ++at;
                series +=
                    at < text.size() && text[at] == 'n' && text[at - 1] == '\\' ? '\n' : text[at];
            }
            ++at;
            if (at < text.size() && text[at] == ',') series += ',';
            if (at >= text.size() || text[at] != ',') break;
        }
        series += '}';
        return at + 1;
    }

    std::string_view rest_;
    std::string_view line_;
    std::string family_;
    bool has_type_ = false;
    std::set<std::string> families_;
    std::vector<std::string> complaints_;
    std::map<std::string, double> samples_;
};

TEST_CASE("metrics are what Prometheus reads, also with two lives of one job") {
    auto status = two_jobs();
    auto again = status.jobs.front();
    status.jobs.front().is_newest = false;
    again.round = 0;
    status.jobs.push_back(again);

    const MetricsReader metrics{answer(get("/metrics"), status).body};

    CHECK(metrics.complaints() == std::vector<std::string>{});
    CHECK(metrics.samples().at("ddprun_rounds_total{job=train}") == 1);
    CHECK(metrics.samples().at("ddprun_rounds_total{job=say \"hi\"\n}") == 0);
    CHECK(metrics.samples().at("ddprun_phase_seconds_total{job=train,phase=running}") == 3600);
    CHECK(metrics.samples().at("ddprun_jobs{state=running}") == 2);
    // The reader detects errors.
    CHECK(MetricsReader{"a 1\n# HELP b x\n# TYPE b gauge\nb 1\nb 1\nb x"}.complaints().size() == 5);
}

TEST_CASE(
    "no sample is twice when a job becomes the newest while the page is made, or two look alike") {
    auto status = two_jobs();
    auto again = status.jobs.front();
    again.round = 0;
    status.jobs.push_back(again);
    auto alike = again;
    alike.run_id = "\x01";
    status.jobs.push_back(alike);
    alike.run_id = "\x02";
    status.jobs.push_back(alike);

    const auto text = answer(get("/metrics"), status).body;

    CHECK(MetricsReader{text}.complaints() == std::vector<std::string>{});
    CHECK(has_line(text, "ddprun_jobs_left_out 1"));
}

TEST_CASE("health is one word and everything else is not found") {
    CHECK(answer(get("/healthz"), {}) == HttpResponse{200, "text/plain; charset=utf-8", "ok\n"});
    CHECK(answer(get("/"), {}).status == 404);
    CHECK(answer(get("/status/"), {}).status == 404);
}

TEST_CASE("the head of a response has the length of its body") {
    const HttpResponse page{200, "text/plain", "hello"};

    CHECK(
        encode_head(page, "now") ==
        "HTTP/1.1 200 OK\r\nDate: now\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nCache-Control: "
        "no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n");
    CHECK(
        encode_head(answer(HttpRefusal{405, "no"}), "now").find("Allow: GET, HEAD\r\n") !=
        std::string::npos);
    CHECK(encode_head(busy_answer(), "now").find("503 Service Unavailable") != std::string::npos);
    CHECK(encode_head(busy_answer(), "now").find("Retry-After: 1\r\n") != std::string::npos);
}

TEST_CASE(
    "an answer with a version may be kept, and one that the caller has is sent without its body") {
    const HttpResponse page{200, "text/html; charset=utf-8", "hello", "\"7\""};
    const auto head = encode_head(page, "now");
    CHECK(
        head.find("ETag: \"7\"\r\nContent-Security-Policy: default-src 'none'; ") !=
        std::string::npos);
    CHECK(head.find("Cache-Control: no-cache\r\n") != std::string::npos);

    const auto unchanged = unchanged_answer(page);
    CHECK(unchanged.body.empty());
    CHECK(encode_head(unchanged, "now").starts_with("HTTP/1.1 304 Not Modified\r\n"));
    CHECK(encode_head(unchanged, "now").find("Content-Length") == std::string::npos);
}

TEST_CASE("the epoch of a server that was elected is shown, and that of no other") {
    auto shown = two_jobs();
    CHECK(answer(get("/metrics"), shown).body.find("ddprun_leader_epoch{") == std::string::npos);
    CHECK(answer(get("/status"), shown).body.find("leader_epoch") == std::string::npos);

    shown.jobs[0].epoch = 7;
    CHECK(has_line(answer(get("/metrics"), shown).body, "ddprun_leader_epoch{job=\"train\"} 7"));
    CHECK(has_line(answer(get("/status"), shown).body, "      \"leader_epoch\": 7"));
}

TEST_CASE(
    "a server that was elected shows that it leads, where and since when, or that it does not") {
    auto shown = two_jobs();
    CHECK(answer(get("/status"), shown).body.find("\"leader\"") == std::string::npos);

    shown.server.is_elected = true;
    CHECK(has_line(answer(get("/status"), shown).body, "  \"leader\": null,"));

    shown.server.leader = coordinator::LeaderStatus{"10.0.0.2:20311", 4, std::chrono::seconds{90}};
    const auto body = answer(get("/status"), shown).body;
    CHECK(has_line(body, "    \"endpoint\": \"10.0.0.2:20311\","));
    CHECK(has_line(body, "    \"epoch\": 4,"));
    CHECK(has_line(body, "    \"since_s\": 90.0"));
}

}  // namespace
TEST_CASE("jobs of one id and two tenants are apart on each page") {
    Shown shown;
    for (const std::string tenant : {"blue", "red"}) {
        coordinator::JobStatus job;
        job.run_id = "train";
        job.tenant = tenant;
        job.state = "running";
        shown.jobs.push_back(job);
    }
    const auto metrics = answer(get("/metrics"), shown).body;
    const auto status = answer(get("/status"), shown).body;
    for (const std::string tenant : {"blue", "red"}) {
        CHECK(
            metrics.find("ddprun_hangs_total{job=\"train\",tenant=\"" + tenant + "\"} 0\n") !=
            std::string::npos);
        CHECK(status.find("\"tenant\": \"" + tenant + "\"") != std::string::npos);
    }
    CHECK(metrics.find("ddprun_jobs_left_out 0\n") != std::string::npos);
    // A server without tenants has no such field.
    shown.jobs.front().tenant.clear();
    shown.jobs.pop_back();
    CHECK(answer(get("/metrics"), shown).body.find("tenant") == std::string::npos);
    CHECK(answer(get("/status"), shown).body.find("tenant") == std::string::npos);
}

}  // namespace ddprun::server
