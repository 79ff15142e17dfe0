// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/report/job_report.hpp"
#include "agent/report/report_plan.hpp"

#include <string>

namespace ddprun::agent {

class PostMortem;

/// What standard error shows of the end, in the form that was asked for; empty when the job
/// succeeded. Failures that torchrun has no table for are described in sentences.
std::string screen_of(const JobReport& report, const ReportPlan& plan);

/// The report's file and the parent's error file, where these were asked for. `original` is the
/// root cause's error file as its worker wrote it, if that was one of this node's.
void write_reports(
    const JobReport& report,
    const ReportPlan& plan,
    const std::string& original,
    PostMortem& post_mortem);

}  // namespace ddprun::agent
