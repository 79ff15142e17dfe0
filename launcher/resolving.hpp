// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/job_spec.hpp"
#include "launcher/rdzv_conf.hpp"

#include <string>
#include <string_view>

namespace ddprun::launcher {

/// One command line being understood: what resolve()'s steps read and what they fill. Each step
/// (`*_options.hpp`) fills its part of `spec`; the first failure ends it.
struct Resolving {
    const Options& options;
    const Surroundings& around;
    JobSpec spec;
    /// --rdzv-conf, once its step is done, and where it was given.
    RdzvConf conf;
    std::string conf_origin;

    void note(log::Level level, std::string event, std::string reason);
    /// Requires: `spec.environment` holds what was inherited.
    void change_environment(
        const std::string& name, const std::string& value, const std::string& why);
};

/// The origin of a value that nobody gave.
inline const std::string by_default = "default";

/// "flag: 'what was given': what is accepted", for exit code 2.
Failure usage(const std::string& origin, const std::string& given, const std::string& accepted);

/// A whole number between two others, or what is wrong with it.
Result<int> number_between(const Given& given, int least, int most);

/// What a name was given, or this instead.
Given given_or(const Options& options, std::string_view name, const std::string& otherwise);

}  // namespace ddprun::launcher
