// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/limits.hpp"
#include "rendezvous/coordinator/leadership.hpp"
#include "rendezvous/coordinator/status.hpp"
#include "rendezvous/server/http_request.hpp"
#include "rendezvous/server/store_survey.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

/// Builds the pages of the server as values: /healthz, /status (JSON) and /metrics (Prometheus
/// text). /timeline is in http_timeline.hpp, the page for browsers in http_files.hpp. nlohmann/json
/// stays inside http_status.cpp and http_timeline.cpp. Pure.
namespace ddprun::server {

/// Everything on the pages except the jobs, at one moment.
struct ServerStatus {
    std::string version;
    double uptime_s = 0;

    // Counts since the start.
    std::uint64_t control_connections = 0;
    std::uint64_t store_connections = 0;
    std::uint64_t http_connections = 0;
    std::uint64_t rejected_connections = 0;
    /// Counts now.
    std::uint64_t agents = 0;
    /// The server is elected by the nodes of one job: it serves that job or none.
    bool is_elected = false;
    std::optional<coordinator::LeaderStatus> leader;
    /// None when the stores did not answer in time.
    std::optional<StoreSurvey> stores;
};

/// The part of the status that a request selects: `?job=ID&from=N`.
struct StatusQuery {
    std::string job;  ///< empty: all
    std::size_t first_node = 0;
    /// The first round of the timeline; none: without a timeline.
    std::optional<int> first_round = std::nullopt;
    bool operator==(const StatusQuery&) const = default;
};

struct HttpResponse {
    int status = 200;
    std::string content_type;
    std::string body;
    /// Identifies this version of the page; empty: a caller must not keep the page.
    std::string etag = {};
    bool operator==(const HttpResponse&) const = default;
};

/// Absent or unreadable numbers mean 0.
StatusQuery status_query(const HttpRequest& request);

/// A page with facts about each job; jobs are added one at a time.
class JobPage {
public:
    JobPage() = default;
    virtual ~JobPage() = default;
    JobPage(const JobPage&) = delete;
    JobPage& operator=(const JobPage&) = delete;

    /// Selects the part of each job's status that is added.
    virtual StatusQuery query() const = 0;
    /// Adds a job, in order of creation. A job that would make the page longer than `most_bytes` is
    /// left out and counted.
    virtual void add(const coordinator::JobStatus& job) = 0;
    virtual HttpResponse finish(const ServerStatus& status) = 0;
};

/// Null: the answer does not depend on jobs.
std::unique_ptr<JobPage> job_page(
    const HttpRequest& request, std::size_t most_bytes = limits::max_page_bytes);
/// The answer to any other request.
HttpResponse plain_answer(const HttpRequest& request);
HttpResponse answer(const HttpRefusal& refusal);
/// The answer to a caller that may not read the page (page_access.hpp).
HttpResponse members_only_answer();
/// The answer to a request that must be repeated later.
HttpResponse busy_answer();

/// The answer to a caller that has this version of the page already.
HttpResponse unchanged_answer(const HttpResponse& page);

/// The status line and header, including `Connection: close`. `date` is http_date().
std::string encode_head(const HttpResponse& response, std::string_view date);

}  // namespace ddprun::server
