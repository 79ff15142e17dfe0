// SPDX-License-Identifier: Apache-2.0
#include "launcher/run_job.hpp"

#include "launcher/exit_code.hpp"
#include "launcher/explain.hpp"
#include "launcher/options.hpp"
#include "launcher/surroundings.hpp"

#include <cstdio>

namespace ddprun::launcher {
namespace {

void print(std::FILE* stream, const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stream);
    std::fflush(stream);
}

/// Two lines at most: what is wrong, and what to do.
int refuse(const Failure& failure) {
    const int exit_code = exit_code_before_start(failure);
    auto text = "ddprun: " + failure.context + "\n";
    if (exit_code == 2) text += "try 'ddprun --help'\n";
    print(stderr, text);
    return exit_code;
}

}  // namespace

int run(int argc, const char* const* argv, const char* const* environment) {
    const auto surroundings = look_around(environment);
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    const auto options = parse_options(arguments, surroundings.environment);
    if (!options) return refuse(options.error());
    if (options->has_flag("help")) return print(stdout, help_text()), 0;
    if (options->has_flag("version")) return print(stdout, "ddprun " DDPRUN_VERSION "\n"), 0;

    std::vector<Notice> notices;
    const auto level = log_level(*options, surroundings.environment, notices);
    if (!level) return refuse(level.error());
    auto spec = resolve(*options, surroundings);
    if (!spec) return refuse(spec.error());
    spec->notices.insert(spec->notices.begin(), notices.begin(), notices.end());
    if (options->has_flag("explain")) return print(stdout, explain(*spec, "")), 0;

    log::set_level(*level);
    for (const auto& notice : spec->notices)
        log::write(notice.level, notice.event, {{"reason", notice.reason}});
    return 1;
}

}  // namespace ddprun::launcher
