// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/report/job_report.hpp"

#include <string>

namespace ddprun::agent {

/// The report for programs: one JSON object on one line, newline included; docs/report.md lists the
/// fields. With `--log-format json` it is a line like the others, so it begins with `time`
/// (utc_time()) and a `message`. It is always valid UTF-8, and is also written for a job that
/// succeeded.
std::string report_json(const JobReport& report, const std::string& time);

/// The content of the parent's TORCHELASTIC_ERROR_FILE, as torchrun writes it: the root cause in
/// the form of PyTorch's `@record`, with `errorCode` (negative for a signal). `original` is the
/// worker's own error file, if available: then its other fields are kept. `unix_time` is now.
/// Requires: the job did not succeed.
std::string parent_error_json(
    const JobReport& report, const std::string& original, std::int64_t unix_time);

}  // namespace ddprun::agent
