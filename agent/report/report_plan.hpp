// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ddprun::agent {

enum class ReportFormat : std::uint8_t { text, json, torchrun };

/// How the end of a job is reported, resolved by the launcher before the fork.
struct ReportPlan {
    /// The form on standard error when the job did not succeed.
    ReportFormat format = ReportFormat::text;
    bool has_colour = false;
    /// A file that gets the report as JSON for any outcome; empty: none.
    std::string file;
    /// TORCHELASTIC_ERROR_FILE of ddprun's own environment, which gets the root cause of a job that
    /// did not succeed; empty: not set.
    std::string parent_error_file;
    /// Set when `ddprun --hosts` started this node: the report is sent there in a frame with this
    /// token (report_frame.hpp). Empty: the report is for the user.
    std::string frame_token;
    /// The exit code is 1 for every failure.
    bool has_torchrun_exit_code = false;

    bool operator==(const ReportPlan&) const = default;
};

}  // namespace ddprun::agent
