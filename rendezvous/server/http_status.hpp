// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/status.hpp"
#include "rendezvous/server/http_request.hpp"
#include "rendezvous/server/store_survey.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// The pages of the server, as values: /healthz, /status (JSON) and
/// /metrics (Prometheus text). nlohmann/json stays inside http_status.cpp. Pure.
namespace ddprun::server {

/// The content of the pages, at one moment.
struct ServerStatus {
    std::string version;
    double uptime_s = 0;
    /// With the nodes from `StatusQuery::first_node` on.
    std::vector<coordinator::JobStatus> jobs;

    // Since the start.
    std::uint64_t control_connections = 0;
    std::uint64_t store_connections = 0;
    std::uint64_t http_connections = 0;
    std::uint64_t rejected_connections = 0;
    /// Now.
    std::uint64_t agents = 0;
    /// None when they did not answer in time.
    std::optional<StoreSurvey> stores;
};

/// What of the status a request wants: `?job=ID&from=N`.
struct StatusQuery {
    std::string job;  ///< empty: all
    std::size_t first_node = 0;
    bool operator==(const StatusQuery&) const = default;
};

struct HttpResponse {
    int status = 200;
    std::string content_type;
    std::string body;
    bool operator==(const HttpResponse&) const = default;
};

/// Absent or unreadable numbers mean 0.
StatusQuery status_query(const HttpRequest& request);

HttpResponse answer(const HttpRequest& request, const ServerStatus& status);
HttpResponse answer(const HttpRefusal& refusal);

/// The bytes, `Connection: close` included; without the body for HEAD.
std::string encode(const HttpResponse& response, bool with_body);

}  // namespace ddprun::server
