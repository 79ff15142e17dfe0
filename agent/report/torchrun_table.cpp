// SPDX-License-Identifier: Apache-2.0
#include "agent/report/torchrun_table.hpp"

#include "agent/report/printable.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <vector>

namespace ddprun::agent {
namespace torchrun_table_file {
namespace {

using control::WorkerEnd;

constexpr std::size_t widest = 60;
constexpr std::string_view not_available = "<N/A>";
constexpr std::string_view no_traceback =
    "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html";

struct Entry {
    control::EndedWorker worker;
    std::string time;
    std::string error_file;
    std::string traceback;
};

/// "2026-01-31_12:00:05"
std::string time_text(std::int64_t unix_time, std::chrono::seconds utc_offset) {
    using namespace std::chrono;
    const sys_seconds moment{seconds{unix_time} + utc_offset};
    const auto day = floor<days>(moment);
    const year_month_day date{day};
    const hh_mm_ss time{moment - day};
    std::array<char, 64> text{};
    std::snprintf(
        text.data(),
        text.size(),
        "%04d-%02u-%02u_%02d:%02d:%02d",
        static_cast<int>(date.year()),
        static_cast<unsigned>(date.month()),
        static_cast<unsigned>(date.day()),
        static_cast<int>(time.hours().count()),
        static_cast<int>(time.minutes().count()),
        static_cast<int>(time.seconds().count()));
    return text.data();
}

int exit_code_of(const WorkerEnd& end) {
    switch (end.kind) {
        case WorkerEnd::Kind::exited: return end.value;
        case WorkerEnd::Kind::killed: return -end.value;
        case WorkerEnd::Kind::not_executed:
            return end.value == ENOENT ? exit_codes::not_found : exit_codes::not_executable;
    }
    return exit_codes::failed;
}

/// Continuation lines are indented as in torch.
std::string indented(std::string_view text) {
    std::string result;
    for (const char c : printable(text)) {
        result += c;
        if (c == '\n') result += "  ";
    }
    return result;
}

/// The error message that torchrun would choose. Facts that only the agent found are not part of
/// this row: the last lines of standard error were already on the screen.
std::string_view error_message_of(const control::WorkerFailure& worker) {
    switch (worker.from_error_file) {
        case control::WorkerFailure::FromErrorFile::none: return {};
        case control::WorkerFailure::FromErrorFile::message: return worker.message;
        case control::WorkerFailure::FromErrorFile::message_and_details: return worker.details;
    }
    return {};
}

std::string traceback_of(const control::EndedWorker& worker, std::string_view message) {
    if (!message.empty()) return indented(message);
    if (worker.end.kind == WorkerEnd::Kind::killed)
        return "Signal " + std::to_string(worker.end.value) + " (" + signal_name(worker.end.value) +
               ") received by PID " + std::to_string(worker.pid);
    return std::string{no_traceback};
}

std::vector<std::string> lines_of(std::size_t index, const Entry& entry) {
    const auto& worker = entry.worker;
    auto code =
        std::to_string(exit_code_of(worker.end)) + " (pid: " + std::to_string(worker.pid) + ") ";
    if (worker.end.kind == WorkerEnd::Kind::killed)
        code += " (" + signal_name(worker.end.value) + ")";
    return {
        "[" + std::to_string(index) + "]:",
        "  time      : " + entry.time,
        "  host      : " + printable(worker.host),
        "  rank      : " + std::to_string(worker.rank) +
            " (local_rank: " + std::to_string(worker.local_rank) + ")",
        "  exitcode  : " + code,
        "  error_file: " + printable(entry.error_file),
        "  traceback : " + entry.traceback};
}

/// All other workers that failed or were ended by ddprun's signal: torchrun does not distinguish
/// these. Sorted by rank, as in torchrun.
std::vector<control::EndedWorker> others_of(const JobReport& report) {
    auto others = report.secondary_failures;
    for (const auto& one : report.stopped)
        if (one.pid > 0) others.push_back(one);
    std::stable_sort(
        others.begin(), others.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
    return others;
}

/// The length of the longest line; a traceback has several.
std::size_t width_of(const std::string& text) {
    std::size_t width = 0;
    std::string_view rest = text;
    while (!rest.empty()) {
        const auto end = std::min(rest.find('\n'), rest.size());
        width = std::max(width, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return width;
}

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const auto& line : lines)
        text += line + '\n';
    return text;
}

}  // namespace
}  // namespace torchrun_table_file

std::string torchrun_table(const JobReport& report, std::chrono::seconds utc_offset) {
    using namespace torchrun_table_file;
    const auto& cause = report.root_cause;
    if (report.outcome == control::Outcome::succeeded || !cause || !cause->worker) return {};

    const auto& first = *cause->worker;
    const control::EndedWorker root{
        first.rank, first.local_rank, first.pid, first.end, cause->host};
    const Entry root_entry{
        root,
        first.unix_time ? time_text(*first.unix_time, utc_offset) : std::string{not_available},
        first.error_file.empty() ? std::string{not_available} : first.error_file,
        traceback_of(root, error_message_of(first))};

    const auto title = printable(report.program) + " FAILED";
    const auto root_text = joined(lines_of(0, root_entry));
    std::string others;
    std::size_t index = 0;
    for (const auto& one : others_of(report))
        others += joined(lines_of(
            ++index,
            {one, std::string{not_available}, std::string{not_available}, traceback_of(one, {})}));
    const auto width =
        std::min(std::max({title.size(), width_of(root_text), width_of(others)}), widest);
    const auto rule = std::string(width, '=') + '\n';
    const auto section = std::string(width, '-') + '\n';
    return rule + title + '\n' + section + "Failures:\n" +
           (others.empty() ? "  <NO_OTHER_FAILURES>\n" : others) + section +
           "Root Cause (first observed failure):\n" + root_text + rule;
}

}  // namespace ddprun::agent
