// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/report_options.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using agent::ReportFormat;

namespace {

PathLook look_at(const std::string& path) {
    PathLook look;
    look.is_directory = path == "." || path == "/logs/" || path == "/logs" || path == "/";
    look.exists = look.is_directory;
    return look;
}

Result<agent::ReportPlan> chosen(
    std::vector<std::string> arguments,
    const Environment& environment = {},
    bool has_terminal = false) {
    arguments.push_back("script");
    const auto options = parse_options(arguments, {});
    REQUIRE(options.has_value());
    return choose_report(*options, environment, has_terminal, look_at);
}

std::string problem(const std::vector<std::string>& arguments) {
    const auto plan = chosen(arguments);
    return plan ? "" : plan.error().context;
}

}  // namespace

TEST_CASE("without options the report is text, on the screen only") {
    CHECK(*chosen({}) == agent::ReportPlan{});
}

TEST_CASE("the report has three forms") {
    CHECK(chosen({"--report-format=text"})->format == ReportFormat::text);
    CHECK(chosen({"--report-format", "json"})->format == ReportFormat::json);
    CHECK(chosen({"--report_format=torchrun"})->format == ReportFormat::torchrun);
    CHECK(
        problem({"--report-format=xml"}) ==
        "--report-format: 'xml': accepted are text, json and torchrun");
}

TEST_CASE("compatibility is torchrun's table and exit code, and an explicit form wins") {
    CHECK(chosen({"--compat=torchrun"})->format == ReportFormat::torchrun);
    CHECK(chosen({"--compat=torchrun"})->has_torchrun_exit_code);
    CHECK(chosen({"--compat=torchrun", "--report-format=json"})->format == ReportFormat::json);
    CHECK_FALSE(chosen({"--report-format=torchrun"})->has_torchrun_exit_code);
    CHECK(problem({"--compat=mpirun"}) == "--compat: 'mpirun': accepted is torchrun");
}

TEST_CASE("where the log is JSON the report is, unless another form is asked for") {
    CHECK(chosen({"--log-format=json"})->format == ReportFormat::json);
    CHECK(chosen({"--log-format=text"})->format == ReportFormat::text);
    CHECK(chosen({"--log-format=json", "--report-format=text"})->format == ReportFormat::text);
}

TEST_CASE("a report file needs a folder that exists") {
    CHECK(chosen({"--report-file=report.json"})->file == "report.json");
    CHECK(chosen({"--report-file=/logs/report.json"})->file == "/logs/report.json");
    CHECK(chosen({"--report-file=/report.json"})->file == "/report.json");
    CHECK(
        problem({"--report-file=/none/report.json"}) ==
        "--report-file: '/none/report.json': there is no folder /none/");
    CHECK(
        problem({"--report-file=/logs"}) ==
        "--report-file: '/logs': that is a folder: name a file in it");
    CHECK(problem({"--report-file="}) == "--report-file: '': a path is needed");
}

TEST_CASE("colour is for a terminal, unless the environment rules it out") {
    CHECK(chosen({}, {}, true)->has_colour);
    CHECK_FALSE(chosen({}, {}, false)->has_colour);
    CHECK_FALSE(chosen({}, {{"NO_COLOR", "1"}}, true)->has_colour);
    CHECK(chosen({}, {{"NO_COLOR", ""}}, true)->has_colour);
    CHECK_FALSE(chosen({}, {{"TERM", "dumb"}}, true)->has_colour);
    CHECK(chosen({}, {{"TERM", "xterm"}}, true)->has_colour);
}

TEST_CASE("the parent's error file comes from the environment") {
    CHECK(
        chosen({}, {{"TORCHELASTIC_ERROR_FILE", "/run/error.json"}})->parent_error_file ==
        "/run/error.json");
}
