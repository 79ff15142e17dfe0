// SPDX-License-Identifier: Apache-2.0
#include "agent/report/event.hpp"

#include <doctest/doctest.h>

using namespace ddprun::agent;

namespace {

Event an_event() {
    Event event;
    event.state = Event::State::rendezvous;
    event.run_id = "job-1";
    event.role = "trainer";
    event.host = "node2";
    event.entry_point = "train.py";
    event.group_rank = 1;
    event.group_world_size = 4;
    event.round = 3;
    event.restarts = 2;
    event.total_seconds = 61;
    event.duration_ms = 250;
    return event;
}

}  // namespace

TEST_CASE("an agent's event has torchelastic's fields in torchelastic's order") {
    CHECK(
        event_line(an_event(), 1'700'000'000'123) ==
        R"({"name":"torchelastic.worker.status.RENDEZVOUS","source":"AGENT","timestamp":1700000000123,)"
        R"("metadata":{"run_id":"job-1","global_rank":null,"group_rank":1,"worker_id":null,)"
        R"("role":"trainer","hostname":"node2","state":"RENDEZVOUS","total_run_time":61,)"
        R"("rdzv_backend":"c10d","raw_error":null,)"
        R"("metadata":"{\"group_world_size\":4,\"entry_point\":\"train.py\",\"round\":3}",)"
        R"("agent_restarts":2,"duration_ms":250}})"
        "\n");
}

TEST_CASE("a worker's event names the worker, and its error when it failed") {
    auto event = an_event();
    event.state = Event::State::failed;
    event.worker = {1, 5, 5, 16, 4242, -9};
    event.duration_ms.reset();
    event.error = "killed by SIGKILL";

    const auto line = event_line(event, 0);

    for (const auto* part :
         {R"("name":"torchelastic.worker.status.FAILED","source":"WORKER")",
          R"("global_rank":5)",
          R"("worker_id":"4242")",
          R"("raw_error":"killed by SIGKILL")",
          R"(\"local_rank\":1,\"role_rank\":5,\"role_world_size\":16,\"exit_code\":-9,)"
          R"(\"worker_pid\":4242)",
          R"("duration_ms":null)"})
        CHECK_MESSAGE(line.find(part) != std::string::npos, line);
}

TEST_CASE("whatever a name holds, an event is one line of JSON") {
    auto event = an_event();
    event.run_id = "a\nb\"c\xff";

    const auto line = event_line(event, 0);

    CHECK(line.find('\n') == line.size() - 1);
    CHECK(line.find("a\\nb\\\"c\xEF\xBF\xBD") != std::string::npos);
}
