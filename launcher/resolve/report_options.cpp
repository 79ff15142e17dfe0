// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/report_options.hpp"

#include <cerrno>
#include <string>
#include <utility>

namespace ddprun::launcher {
namespace report_options {
namespace {

using agent::ReportFormat;

Failure wrong(const Given& given, const std::string& accepted) {
    return {system_code(EINVAL), given.origin + ": '" + given.text + "': " + accepted};
}

Result<ReportFormat> format_of(const Given& given) {
    constexpr std::pair<std::string_view, ReportFormat> formats[] = {
        {"text", ReportFormat::text},
        {"json", ReportFormat::json},
        {"torchrun", ReportFormat::torchrun}};
    for (const auto& [name, format] : formats)
        if (given.text == name) return format;
    return wrong(given, "accepted are text, json and torchrun");
}

/// Checked before the job starts, not only when it is over.
Result<> check_file(const Given& given, const LookAt& look_at) {
    if (given.text.empty()) return wrong(given, "a path is needed");
    if (look_at(given.text).is_directory)
        return wrong(given, "that is a folder: name a file in it");
    const auto slash = given.text.rfind('/');
    const auto folder = slash == std::string::npos ? "." : given.text.substr(0, slash + 1);
    if (!look_at(folder).is_directory) return wrong(given, "there is no folder " + folder);
    return {};
}

bool is_colour_wanted(const Environment& environment, bool has_terminal) {
    return has_terminal && !value_of(environment, "NO_COLOR") &&
           value_of(environment, "TERM") != "dumb";
}

}  // namespace
}  // namespace report_options

Result<bool> is_torchrun_wanted(const Options& options) {
    const auto given = options.find("compat");
    if (!given) return false;
    if (given->text == "torchrun") return true;
    return report_options::wrong(*given, "accepted is torchrun");
}

Result<agent::ReportPlan> choose_report(
    const Options& options,
    const Environment& environment,
    bool has_terminal,
    const LookAt& look_at) {
    using namespace report_options;
    const auto is_torchrun = is_torchrun_wanted(options);
    if (!is_torchrun) return is_torchrun.error();

    agent::ReportPlan plan;
    plan.has_torchrun_exit_code = *is_torchrun;
    if (*is_torchrun) plan.format = ReportFormat::torchrun;
    // A program that parses the log as JSON must not find other lines in it.
    const auto log_format = options.find("log-format");
    if (log_format && log_format->text == "json") plan.format = ReportFormat::json;
    if (const auto given = options.find("report-format")) {
        const auto format = format_of(*given);
        if (!format) return format.error();
        plan.format = *format;
    }
    if (const auto given = options.find("report-file")) {
        if (const auto fine = check_file(*given, look_at); !fine) return fine.error();
        plan.file = given->text;
    }
    plan.has_colour = is_colour_wanted(environment, has_terminal);
    plan.parent_error_file = value_of(environment, "TORCHELASTIC_ERROR_FILE").value_or("");
    return plan;
}

}  // namespace ddprun::launcher
