// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ddprun::agent {

enum class ReportFormat : std::uint8_t { text, json, torchrun };

/// How the end of a job is reported, resolved by the launcher before the fork.
struct ReportPlan {
    /// On standard error, when the job did not succeed.
    ReportFormat format = ReportFormat::text;
    bool has_colour = false;
    /// Written as JSON whatever the outcome; empty: nowhere.
    std::string file;
    /// TORCHELASTIC_ERROR_FILE of ddprun's own environment, for the root cause of a job that did
    /// not succeed; empty: it is not set.
    std::string parent_error_file;
    /// `ddprun --hosts` started this node: the report goes to it, in a frame with this token
    /// (report_frame.hpp). Empty: to the user.
    std::string frame_token;
    /// 1 for whatever went wrong.
    bool has_torchrun_exit_code = false;

    bool operator==(const ReportPlan&) const = default;
};

}  // namespace ddprun::agent
