// SPDX-License-Identifier: Apache-2.0
#include "agent/report/failure_summary.hpp"

#include "agent/report/cause_in_words.hpp"
#include "agent/report/goodput_text.hpp"
#include "agent/report/printable.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"

#include <algorithm>
#include <string_view>

namespace ddprun::agent {
namespace {

using control::WorkerEnd;
using control::WorkerFailure;

constexpr std::size_t max_listed = 8;
constexpr std::size_t value_column = 17;
constexpr std::size_t headline_margin = 2;
constexpr std::size_t longest_headline_bytes = 400;

constexpr std::string_view bold_red = "\033[1;31m";
constexpr std::string_view plain = "\033[0m";

/// Formats a headline, in colour if the screen has it, and rows of a name and a value.
class Screen {
public:
    explicit Screen(bool has_colour) : has_colour_(has_colour) {}

    void headline(const std::string& line) {
        const auto words = wrapped(printable(line), headline_margin);
        text_ += has_colour_ ? std::string{bold_red} + words + std::string{plain} : words;
        text_ += '\n';
    }
    void row(std::string_view name, std::string_view value) {
        std::string label = "  " + std::string{name};
        label.resize(std::max(value_column, label.size() + 1), ' ');
        text_ += label + wrapped(printable(value), value_column) + '\n';
    }
    void quote(std::string_view text) {
        while (!text.empty()) {
            const auto end = text.find('\n');
            text_ += "  | " + printable(text.substr(0, end)) + '\n';
            text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        }
    }
    void line(std::string_view words) { text_ += "  " + std::string{words} + '\n'; }
    std::string take() { return std::move(text_); }

private:
    bool has_colour_;
    std::string text_;
};

std::string first_line(const std::string& text) {
    return text.substr(0, text.find('\n'));
}

/// "stderr (last 5 lines):"
std::string details_label(const WorkerFailure& worker) {
    if (worker.from_error_file == WorkerFailure::FromErrorFile::message_and_details)
        return "call stack:";
    const auto& text = worker.details;
    const auto count = std::count(text.begin(), text.end(), '\n') + (text.ends_with('\n') ? 0 : 1);
    return count == 1 ? "stderr (last line):"
                      : "stderr (last " + std::to_string(count) + " lines):";
}

void show_worker(
    Screen& screen,
    const WorkerFailure& worker,
    const control::Cause& cause,
    const std::string& headline) {
    const auto is_said = [&](const std::string& words) {
        return headline.find(words) != std::string::npos;
    };
    auto place =
        "rank " + std::to_string(worker.rank) + " (local rank " + std::to_string(worker.local_rank);
    if (worker.pid > 0) place += ", pid " + std::to_string(worker.pid);
    place += ") on " + cause.host;
    if (cause.round >= 0) place += ", round " + std::to_string(cause.round);
    screen.row("root cause", place);

    const auto how = control::describe(worker.end, worker.pid);
    const bool has_run = worker.pid > 0 && worker.end.kind != WorkerEnd::Kind::not_executed;
    if (!is_said(how) && (has_run || !is_said(worker.message))) screen.row("how", how);
    if (worker.progress.is_known()) screen.row("progress", control::describe(worker.progress));
    // The agent had no time to find the cause, or is of an older release.
    const auto why = worker.why.empty() ? cause_in_words(worker.end, {}).sentence : worker.why;
    if (!why.empty()) screen.row("why", why);
    if (!worker.message.starts_with(how) && !is_said(worker.message))
        screen.row("error", worker.message);
    if (!worker.error_file.empty()) screen.row("error file", worker.error_file);
    if (!worker.log_file.empty()) screen.row("log", worker.log_file);
    if (worker.details.empty()) return;
    screen.line(details_label(worker));
    screen.quote(worker.details);
}

std::string other_workers(const JobReport& report) {
    const auto in_words = [&](const auto& one) {
        const bool is_elsewhere = !one.host.empty() && one.host != report.host;
        return "rank " + std::to_string(one.rank) + (is_elsewhere ? " on " + one.host : "") + " " +
               control::describe(one.end, one.pid);
    };
    auto text = short_list(report.secondary_failures, {max_listed, "; ", "; and "}, in_words);
    if (const auto count = report.stopped.size(); count > 0)
        text += (text.empty() ? "" : "; ") + std::to_string(count) +
                (count == 1 ? " worker" : " workers") + " here stopped by ddprun";
    return text;
}

}  // namespace

std::string failure_summary(const JobReport& report, bool has_colour) {
    if (report.outcome == control::Outcome::succeeded) return {};

    Screen screen(has_colour);
    const auto& cause = report.root_cause;
    const auto headline =
        shortened(first_line(cause ? cause->reason : report.reason), longest_headline_bytes);
    screen.headline(
        (report.outcome == control::Outcome::cancelled ? "ddprun: job was cancelled: "
                                                       : "ddprun: job failed: ") +
        headline);
    if (!report.next_step.empty()) screen.row("next step", report.next_step);
    if (cause && cause->worker) show_worker(screen, *cause->worker, *cause, headline);
    if (const auto others = other_workers(report); !others.empty())
        screen.row("other workers", others);
    // If the node was never in a round, the user has only just typed the command.
    if (report.round >= 0)
        screen.row("job", report.run_id + (report.program.empty() ? "" : ", " + report.program));
    if (report.max_restarts > 0) {
        const auto allowed = std::to_string(report.max_restarts);
        const bool was_refilled = report.restarts > report.max_restarts;
        screen.row(
            "restarts",
            std::to_string(report.restarts) + (was_refilled
                                                   ? "; the " + allowed + " allowed were refilled"
                                                   : " of " + allowed + " used"));
    }
    screen.row("exit code", std::to_string(report.exit_code));
    if (report.goodput && is_measured(*report.goodput))
        screen.row("time", goodput_text(*report.goodput));
    return screen.take();
}

}  // namespace ddprun::agent
