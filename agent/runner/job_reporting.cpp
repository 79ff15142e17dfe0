// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/job_reporting.hpp"

#include "agent/report/failure_summary.hpp"
#include "agent/report/report_json.hpp"
#include "agent/report/torchrun_table.hpp"
#include "agent/runner/post_mortem.hpp"
#include "rendezvous/base/wall_time.hpp"

#include <chrono>
#include <ctime>

namespace ddprun::agent {
namespace {

std::chrono::seconds local_utc_offset() {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    return std::chrono::seconds{::localtime_r(&now, &local) != nullptr ? local.tm_gmtoff : 0};
}

}  // namespace

std::string screen_of(const JobReport& report, const ReportPlan& plan) {
    if (report.outcome == control::Outcome::succeeded) return {};
    switch (plan.format) {
        case ReportFormat::text: break;
        case ReportFormat::json: return report_json(report, utc_time());
        case ReportFormat::torchrun:
            if (auto table = torchrun_table(report, local_utc_offset()); !table.empty())
                return table;
            break;
    }
    return failure_summary(report, plan.has_colour);
}

void write_reports(
    const JobReport& report,
    const ReportPlan& plan,
    const std::string& original,
    PostMortem& post_mortem) {
    if (!plan.file.empty()) post_mortem.write(plan.file, report_json(report, utc_time()));
    if (plan.parent_error_file.empty() || report.outcome == control::Outcome::succeeded) return;
    post_mortem.write(plan.parent_error_file, parent_error_json(report, original, unix_time_now()));
}

}  // namespace ddprun::agent
