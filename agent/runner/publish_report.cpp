// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/publish_report.hpp"

#include "agent/report/failure_summary.hpp"
#include "agent/report/goodput_text.hpp"
#include "agent/report/report_frame.hpp"
#include "agent/report/report_json.hpp"
#include "agent/report/torchrun_table.hpp"
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

/// The line about the job's time. Only one node of the job shows it, and only if the workers have
/// reported steps.
std::string success_line(const JobReport& report, const ReportPlan& plan) {
    const bool is_shown = plan.format == ReportFormat::text && report.group_rank == 0 &&
                          report.goodput && is_measured(*report.goodput);
    return is_shown ? "ddprun: time " + goodput_text(*report.goodput) + '\n' : std::string{};
}

/// The text about the end for standard error, in the requested form. Failures without a torchrun
/// table are described in sentences.
std::string screen_of(const JobReport& report, const ReportPlan& plan) {
    if (report.outcome == control::Outcome::succeeded) return success_line(report, plan);
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

}  // namespace

std::string final_text_of(const JobReport& report, const ReportPlan& plan) {
    if (plan.frame_token.empty()) return screen_of(report, plan);
    return framed(
        plan.frame_token,
        {report.exit_code, false, report_json(report, utc_time()), screen_of(report, plan)});
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
