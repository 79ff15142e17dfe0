// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/report/job_report.hpp"
#include "agent/report/report_plan.hpp"
#include "agent/runner/post_mortem.hpp"

#include <string>

namespace ddprun::agent {

/// What goes to standard error at the end: for the user, or for the `ddprun --hosts` that started
/// this node.
std::string final_text_of(const JobReport& report, const ReportPlan& plan);

/// The report's file and the parent's error file, where these were asked for. `original` is the
/// root cause's error file as its worker wrote it, if that was one of this node's.
void write_reports(
    const JobReport& report,
    const ReportPlan& plan,
    const std::string& original,
    PostMortem& post_mortem);

}  // namespace ddprun::agent
