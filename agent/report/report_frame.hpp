// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

/// How a node that `ddprun --hosts` started hands over its report: among the output of its workers
/// on standard error, between a mark and its length. All nodes have a report and one of them is
/// shown.
namespace ddprun::agent {

struct FramedReport {
    int exit_code = 0;
    /// The node ended before it joined the job.
    bool is_refusal = false;
    /// One line, as report_json writes it.
    std::string json;
    /// What standard error shows; of a job that succeeded one line at most.
    std::string screen;

    bool operator==(const FramedReport&) const = default;
};

/// `token` is random: no worker writes it by chance.
std::string framed(const std::string& token, const FramedReport& report);

/// Takes the report out of a node's standard error. Pure.
class FrameReader {
public:
    explicit FrameReader(const std::string& token);

    /// Returns the output before and after a report. What may be the begin of a mark is kept back.
    std::string append(std::string_view bytes);
    /// What was kept back, when nothing more comes.
    std::string finish();
    const std::optional<FramedReport>& report() const { return report_; }

private:
    /// False: more bytes are needed.
    bool take_frame();

    std::string mark_;
    std::string buffer_;
    bool is_in_frame_ = false;
    std::optional<FramedReport> report_;
};

}  // namespace ddprun::agent
