// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/output_plan.hpp"
#include "launcher/grammar/options.hpp"
#include "rendezvous/base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

/// Evaluates the options about output and logs.
namespace ddprun::launcher {

struct OutputSpec {
    /// `log_dir` is set once the folder exists (log_folder.hpp).
    agent::OutputPlan plan;
    /// Log files are wanted.
    bool has_files = false;
    /// As typed; empty: a new one in the temporary folder.
    std::string log_dir;
    std::string log_dir_origin;
    /// Where the temporary folder is.
    std::string temporary_folder;
};

Result<OutputSpec> resolve_output(const Options& options, const Environment& environment);

/// "100M", "1.5GiB", "4096": bytes, K, M, G and T being powers of 1024.
Result<std::uint64_t> parse_size(std::string_view text);

/// torchrun's filters: separated by commas; a double comma stands for a comma in the text.
std::vector<std::string> parse_filters(std::string_view text);

}  // namespace ddprun::launcher
