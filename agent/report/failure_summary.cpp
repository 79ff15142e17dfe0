// SPDX-License-Identifier: Apache-2.0
#include "agent/report/failure_summary.hpp"

#include "rendezvous/control/text.hpp"

#include <algorithm>
#include <csignal>
#include <string_view>

namespace ddprun::agent {
namespace {

using control::WorkerEnd;
using control::WorkerFailure;

constexpr std::size_t max_folded = 8;

/// A worker's words on our screen: tabs and newlines stay, escape sequences do not act.
std::string harmless(std::string_view text) {
    std::string result{text};
    std::replace_if(
        result.begin(),
        result.end(),
        [](unsigned char c) { return (c < 0x20 && c != '\t' && c != '\n') || c == 0x7f; },
        '?');
    return result;
}

std::string row(std::string_view name, std::string_view value) {
    constexpr std::size_t width = 13;
    std::string line = "  " + std::string{name};
    line.append(width > name.size() ? width - name.size() : 1, ' ');
    return line + harmless(value) + '\n';
}

std::string quoted_lines(std::string_view text) {
    std::string result;
    while (!text.empty()) {
        const auto end = text.find('\n');
        result += "  | " + harmless(text.substr(0, end)) + '\n';
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return result;
}

/// What a person should look at next, where the way it died says so.
std::string_view hint(const WorkerEnd& end) {
    if (end.kind == WorkerEnd::Kind::killed && end.value == SIGKILL)
        return "not sent by ddprun; if nobody else did, the kernel was out of memory: see dmesg";
    if (end.kind == WorkerEnd::Kind::killed && end.value == SIGBUS)
        return "often a full /dev/shm: see df -h /dev/shm";
    return {};
}

std::string describe_worker(const WorkerFailure& worker, const std::string& host, int round) {
    auto who =
        "rank " + std::to_string(worker.rank) + " (local rank " + std::to_string(worker.local_rank);
    if (worker.pid > 0) who += ", pid " + std::to_string(worker.pid);
    who += ") on " + host;
    if (round >= 0) who += ", round " + std::to_string(round);

    auto text = row("first cause", who) + row("how", control::describe(worker.end));
    if (const auto next = hint(worker.end); !next.empty()) text += row("hint", next);
    if (!worker.message.empty() && worker.message != control::describe(worker.end))
        text += row("message", worker.message);
    if (!worker.details.empty()) text += "  its last words:\n" + quoted_lines(worker.details);
    return text;
}

std::string folded(const JobReport& report) {
    std::string text;
    const auto& all = report.consequences;
    for (std::size_t i = 0; i < std::min(all.size(), max_folded); ++i)
        text += (i == 0 ? "rank " : "; rank ") + std::to_string(all[i].rank) + " " +
                control::describe(all[i].end);
    if (all.size() > max_folded)
        text += "; and " + std::to_string(all.size() - max_folded) + " more";
    if (report.stopped_count > 0)
        text += (text.empty() ? "" : "; ") + std::to_string(report.stopped_count) +
                (report.stopped_count == 1 ? " worker" : " workers") + " here stopped by ddprun";
    return text;
}

}  // namespace

std::string failure_summary(const JobReport& report) {
    if (report.outcome == control::Outcome::succeeded) return {};

    auto text = "ddprun: job '" + harmless(report.run_id) + "' " +
                (report.outcome == control::Outcome::cancelled ? "was cancelled" : "failed") +
                ": " + harmless(report.first_cause ? report.first_cause->reason : report.reason) +
                '\n';
    if (report.first_cause && report.first_cause->worker)
        text += describe_worker(
            *report.first_cause->worker, report.first_cause->host, report.first_cause->round);
    if (const auto others = folded(report); !others.empty()) text += row("then", others);
    return text + row("exit code", std::to_string(report.exit_code));
}

}  // namespace ddprun::agent
