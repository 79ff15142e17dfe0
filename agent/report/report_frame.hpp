// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

/// How a node that `ddprun --hosts` started passes on its report: within its standard error, among
/// the output of its workers, marked and preceded by its length. All nodes send a report; one of
/// them is shown.
namespace ddprun::agent {

struct FramedReport {
    int exit_code = 0;
    /// The node ended before it joined the job.
    bool is_refusal = false;
    /// One line, as report_json writes it.
    std::string json;
    /// The text for standard error; for a job that succeeded at most one line.
    std::string screen;

    bool operator==(const FramedReport&) const = default;
};

/// `token` is random, so no worker writes it by chance.
std::string framed(const std::string& token, const FramedReport& report);

/// Extracts the report from a node's standard error. Pure.
class FrameReader {
public:
    explicit FrameReader(const std::string& token);

    /// Returns the output before and after a report. Bytes that may be the beginning of a mark are
    /// kept back.
    std::string append(std::string_view bytes);
    /// Returns the kept bytes; call it at the end of the stream.
    std::string finish();
    const std::optional<FramedReport>& report() const { return report_; }

private:
    /// Returns false when more bytes are needed.
    bool take_frame();

    std::string mark_;
    std::string buffer_;
    bool is_in_frame_ = false;
    std::optional<FramedReport> report_;
};

}  // namespace ddprun::agent
