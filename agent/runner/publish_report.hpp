// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/report/job_report.hpp"
#include "agent/report/report_plan.hpp"
#include "agent/runner/post_mortem.hpp"

#include <string>

namespace ddprun::agent {

/// The text for standard error at the end: for the user, or for the `ddprun --hosts` that started
/// this node.
std::string final_text_of(const JobReport& report, const ReportPlan& plan);

/// Writes the report file and the parent's error file, if requested. `original` is the unchanged
/// error file of the root cause's worker, if it ran on this node.
void write_reports(
    const JobReport& report,
    const ReportPlan& plan,
    const std::string& original,
    PostMortem& post_mortem);

}  // namespace ddprun::agent
