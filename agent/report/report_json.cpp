// SPDX-License-Identifier: Apache-2.0
#include "agent/report/report_json.hpp"

#include "agent/report/error_file.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>

namespace ddprun::agent {
namespace report_json_file {
namespace {

using Json = nlohmann::ordered_json;
using control::WorkerEnd;

std::string text_of(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json end_of(const WorkerEnd& end, int pid) {
    Json json{{"kind", control::name_of(end.kind)}, {"value", end.value}};
    if (end.kind == WorkerEnd::Kind::killed) {
        json["signal"] = signal_name(end.value);
        json["core_dumped"] = end.core_dumped;
    }
    json["words"] = control::describe(end, pid);
    return json;
}

Json worker_of(const control::WorkerFailure& worker) {
    Json json{
        {"rank", worker.rank},
        {"local_rank", worker.local_rank},
        {"pid", worker.pid},
        {"end", end_of(worker.end, worker.pid)}};
    if (worker.unix_time) json["unix_time"] = *worker.unix_time;
    if (worker.progress.step) json["step"] = *worker.progress.step;
    if (worker.progress.phase != control::WorkPhase::none)
        json["phase"] = control::name_of(worker.progress.phase);
    if (!worker.why.empty()) json["why"] = worker.why;
    json["message"] = worker.message;
    if (!worker.error_file.empty()) json["error_file"] = worker.error_file;
    if (!worker.log_file.empty()) json["log_file"] = worker.log_file;
    if (!worker.details.empty()) json["details"] = worker.details;
    return json;
}

Json cause_of(const control::Cause& cause) {
    Json json{{"kind", control::name_of(cause.kind)}, {"reason", cause.reason}};
    if (!cause.host.empty()) json["host"] = cause.host;
    if (cause.round >= 0) json["round"] = cause.round;
    if (cause.signal > 0) json["signal"] = signal_name(cause.signal);
    if (cause.worker) json["worker"] = worker_of(*cause.worker);
    return json;
}

/// Includes all phases, since programs read it.
Json goodput_of(const control::Goodput& goodput) {
    Json seconds;
    control::for_each_phase([&](control::GoodputPhase phase) {
        seconds[std::string{control::name_of(phase)}] = in_seconds(goodput[phase]);
    });
    return {{"wall_s", in_seconds(goodput.sum())}, {"seconds", std::move(seconds)}};
}

const std::string& reason_of(const JobReport& report) {
    return report.root_cause ? report.root_cause->reason : report.reason;
}

/// "job failed: rank 2 on node7: killed by SIGKILL"
std::string headline(const JobReport& report) {
    switch (report.outcome) {
        case control::Outcome::succeeded: return "job succeeded";
        case control::Outcome::failed: return "job failed: " + reason_of(report);
        case control::Outcome::cancelled: return "job was cancelled: " + reason_of(report);
    }
    return {};
}

/// The exit code as torch counts it: negative for a signal.
int torch_code(const JobReport& report) {
    const auto* worker =
        report.root_cause && report.root_cause->worker ? &*report.root_cause->worker : nullptr;
    if (worker == nullptr) return report.exit_code;
    switch (worker->end.kind) {
        case WorkerEnd::Kind::exited: return worker->end.value;
        case WorkerEnd::Kind::killed: return -worker->end.value;
        case WorkerEnd::Kind::not_executed:
            return worker->end.value == ENOENT ? exit_codes::not_found : exit_codes::not_executable;
    }
    return report.exit_code;
}

}  // namespace
}  // namespace report_json_file

std::string report_json(const JobReport& report, const std::string& time) {
    using namespace report_json_file;
    Json json{
        {"time", time},
        {"stream", "ddprun"},
        {"event", "job.ended"},
        {"message", headline(report)},
        {"run_id", report.run_id},
        {"outcome", control::name_of(report.outcome)},
        {"exit_code", report.exit_code},
        {"program", report.program},
        {"host", report.host}};
    if (report.group_rank) json["group_rank"] = *report.group_rank;
    if (report.round >= 0) {
        json["round"] = report.round;
        json["world_size"] = report.world_size;
    }
    if (report.goodput) json["goodput"] = goodput_of(*report.goodput);
    json["restarts"] = {{"used", report.restarts}, {"max", report.max_restarts}};
    const bool has_failed = report.outcome != control::Outcome::succeeded;
    if (has_failed) json["reason"] = reason_of(report);
    if (!report.next_step.empty()) json["next_step"] = report.next_step;
    if (report.root_cause) json["root_cause"] = cause_of(*report.root_cause);
    if (has_failed) {
        auto others = Json::array();
        for (const auto& one : report.secondary_failures)
            others.push_back(
                {{"rank", one.rank},
                 {"local_rank", one.local_rank},
                 {"pid", one.pid},
                 {"host", one.host},
                 {"end", end_of(one.end, one.pid)}});
        json["secondary_failures"] = std::move(others);
        json["stopped_here"] = report.stopped.size();
    }
    return text_of(json) + '\n';
}

std::string parent_error_json(
    const JobReport& report, const std::string& original, std::int64_t unix_time) {
    using namespace report_json_file;
    const int code = torch_code(report);
    if (parse_error_file(original)) {
        auto json = Json::parse(original, nullptr, /*allow_exceptions=*/false);
        // The plain form has no field for it, not even in torch.
        if (json["message"].is_object()) json["message"]["errorCode"] = code;
        return text_of(json);
    }
    const auto& cause = report.root_cause;
    const auto* worker = cause && cause->worker ? &*cause->worker : nullptr;
    const auto time = worker != nullptr ? worker->unix_time.value_or(unix_time) : unix_time;
    const auto stack = worker != nullptr ? worker->details : std::string{};
    return text_of(
        {{"message",
          {{"message", reason_of(report)},
           {"errorCode", code},
           {"extraInfo", {{"py_callstack", stack}, {"timestamp", std::to_string(time)}}}}}});
}

}  // namespace ddprun::agent
