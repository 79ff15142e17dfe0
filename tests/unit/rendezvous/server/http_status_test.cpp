// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/http_status.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace ddprun::server {
namespace {

HttpRequest get(std::string path, std::map<std::string, std::string> query = {}) {
    return {HttpRequest::Method::get, std::move(path), std::move(query)};
}

ServerStatus two_jobs() {
    coordinator::NodeStatus node;
    node.nonce = "0011";
    node.host = "node1";
    node.pid = 42;
    node.addr = "10.0.0.1";
    node.role = "default";
    node.state = "running";
    node.group_rank = 0;
    node.first_rank = 0;
    node.last_rank = 3;
    node.heard_ago_s = 0.5;

    coordinator::JobStatus training;
    training.run_id = "train";
    training.incarnation = "ab";
    training.state = "running";
    training.reason = "all 1 nodes run";
    training.round = 2;
    training.restarts_used = 1;
    training.max_restarts = 3;
    training.world_size = 4;
    training.node_count = 1;
    training.nodes = {node};

    coordinator::JobStatus waiting;
    waiting.run_id = "say \"hi\"\n";
    waiting.state = "forming";

    ServerStatus status;
    status.version = "1.2.3";
    status.uptime_s = 1.5;
    status.jobs = {training, waiting};
    status.control_connections = 7;
    status.rejected_connections = 2;
    status.agents = 1;
    return status;
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
      "restarts": {
        "used": 1,
        "max": 3
      },
      "world_size": 4,
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
          "ranks": [
            0,
            3
          ],
          "heard_ago_s": 0.5
        }
      ],
      "first_cause": null
    }
  ]
}
)");
}

TEST_CASE("without a job all jobs are shown, and an unknown one is not found") {
    CHECK(answer(get("/status"), two_jobs()).body.find("say") != std::string::npos);
    CHECK(answer(get("/status", {{"job", "other"}}), two_jobs()).status == 404);
    CHECK(answer(get("/status"), ServerStatus{}).body.find("\"jobs\": []") != std::string::npos);
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
    CHECK(has_line(text, "ddprun_restarts_total{job=\"train\"} 1"));
}

TEST_CASE("health is one word and everything else is not found") {
    CHECK(answer(get("/healthz"), {}) == HttpResponse{200, "text/plain; charset=utf-8", "ok\n"});
    CHECK(answer(get("/"), {}).status == 404);
    CHECK(answer(get("/status/"), {}).status == 404);
}

TEST_CASE("a response is encoded with its length, also for HEAD") {
    const HttpResponse page{200, "text/plain", "hello"};

    CHECK(
        encode(page, true) ==
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nCache-Control: "
        "no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nhello");
    CHECK(encode(page, false).ends_with("\r\n\r\n"));
    CHECK(encode(page, false).find("Content-Length: 5\r\n") != std::string::npos);
    CHECK(
        encode(answer(HttpRefusal{405, "no"}), true).find("Allow: GET, HEAD\r\n") !=
        std::string::npos);
}

}  // namespace
}  // namespace ddprun::server
