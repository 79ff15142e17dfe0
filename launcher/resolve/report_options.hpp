// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/report/report_plan.hpp"
#include "launcher/grammar/options.hpp"
#include "launcher/resolve/worker_command.hpp"
#include "rendezvous/base/result.hpp"

namespace ddprun::launcher {

/// How the end of the job is reported: --report-format (else --log-format=json, else --compat),
/// --report-file, and the parent's TORCHELASTIC_ERROR_FILE. Colour is for a terminal, unless
/// NO_COLOR is set or TERM is "dumb". `has_terminal`: standard error is one.
Result<agent::ReportPlan> choose_report(
    const Options& options,
    const Environment& environment,
    bool has_terminal,
    const LookAt& look_at);

/// --compat=torchrun; any other word is an error.
Result<bool> is_torchrun_wanted(const Options& options);

}  // namespace ddprun::launcher
