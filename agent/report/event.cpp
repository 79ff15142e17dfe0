// SPDX-License-Identifier: Apache-2.0
#include "agent/report/event.hpp"

#include "rendezvous/base/machine.hpp"

#include <nlohmann/json.hpp>

namespace ddprun::agent {
namespace {

// Ordered as in torchelastic, since users read the lines too.
using EventJson = nlohmann::ordered_json;

template <class Value>
EventJson value_or_null(const std::optional<Value>& value) {
    return value ? EventJson(*value) : EventJson(nullptr);
}

std::string one_line(const EventJson& object) {
    return object.dump(-1, ' ', false, EventJson::error_handler_t::replace);
}

}  // namespace

std::string_view name_of(Event::State state) {
    switch (state) {
        case Event::State::rendezvous: return "RENDEZVOUS";
        case Event::State::assign_worker_ranks: return "ASSIGN_WORKER_RANKS";
        case Event::State::start: return "START";
        case Event::State::succeeded: return "SUCCEEDED";
        case Event::State::failed: return "FAILED";
        case Event::State::terminated: return "TERMINATED";
    }
    contradiction("an event in no state", __FILE__, __LINE__);
}

std::string event_line(const Event& event, std::int64_t timestamp_ms) {
    const auto state = std::string{name_of(event.state)};
    const auto& worker = event.worker;
    EventJson inner = {
        {"group_world_size", event.group_world_size},
        {"entry_point", event.entry_point},
        {"round", event.round}};
    if (worker) {
        inner["local_rank"] = worker->local_rank;
        inner["role_rank"] = worker->role_rank;
        inner["role_world_size"] = worker->role_world_size;
        inner["exit_code"] = value_or_null(worker->exit_code);
        inner["worker_pid"] = worker->pid;
    }
    EventJson metadata = {
        {"run_id", event.run_id},
        {"global_rank", worker ? EventJson(worker->global_rank) : EventJson(nullptr)},
        {"group_rank", value_or_null(event.group_rank)},
        {"worker_id", worker ? EventJson(std::to_string(worker->pid)) : EventJson(nullptr)},
        {"role", event.role},
        {"hostname", event.host},
        {"state", state},
        {"total_run_time", event.total_seconds},
        {"rdzv_backend", "c10d"},
        {"raw_error", event.error.empty() ? EventJson(nullptr) : EventJson(event.error)},
        {"metadata", one_line(inner)},
        {"agent_restarts", event.restarts},
        {"duration_ms", value_or_null(event.duration_ms)}};
    const EventJson line = {
        {"name", "torchelastic.worker.status." + state},
        {"source", worker ? "WORKER" : "AGENT"},
        {"timestamp", timestamp_ms},
        {"metadata", std::move(metadata)}};
    return one_line(line) + '\n';
}

}  // namespace ddprun::agent
