// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/report/job_report.hpp"

#include <string>

namespace ddprun::agent {

/// The screen after a job that did not succeed: the root cause first, how it died in words and why,
/// the end of its output, the secondary failures, and the exit code. Several lines, each ended by a
/// newline; ddprun's lines stay within 80 columns if the names in them allow it; a worker's lines
/// are not cut. Empty for a job that succeeded.
///
/// A worker's output cannot move the cursor: control characters are shown as `?`.
std::string failure_summary(const JobReport& report, bool has_colour);

}  // namespace ddprun::agent
