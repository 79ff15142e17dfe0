// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/report/job_report.hpp"

#include <chrono>
#include <string>

namespace ddprun::agent {

/// The failure of a worker in the layout of torchrun's table, for programs that read it: the root
/// cause under "Root Cause", the workers that ended badly after it under "Failures". Workers that
/// ddprun stopped are in neither. `utc_offset` is that of the local time zone.
///
/// Empty when the root cause was no worker's failure: torchrun has no table for that.
std::string torchrun_table(const JobReport& report, std::chrono::seconds utc_offset);

}  // namespace ddprun::agent
