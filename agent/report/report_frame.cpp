// SPDX-License-Identifier: Apache-2.0
#include "agent/report/report_frame.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

namespace ddprun::agent {
namespace report_frame {
namespace {

std::string mark_of(const std::string& token) {
    return "\x1e"
           "ddprun-report " +
           token + ' ';
}

/// The fields of a header after the mark: exit code, 1 for a refusal, bytes of JSON, bytes of the
/// screen.
constexpr std::size_t field_count = 4;
constexpr std::size_t max_header_bytes = 64;
/// The limit of each part. Anything that claims to be larger is treated as output, since a part is
/// kept in memory.
constexpr std::uint32_t max_part_bytes = 1024 * 1024;

std::optional<std::array<std::uint32_t, field_count>> read_header(std::string_view line) {
    const auto words = split(line, ' ');
    if (words.size() != field_count) return std::nullopt;
    std::array<std::uint32_t, field_count> fields{};
    for (std::size_t i = 0; i < field_count; ++i) {
        const auto* end = words[i].data() + words[i].size();
        const auto read = std::from_chars(words[i].data(), end, fields[i]);
        if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
    }
    const auto [exit_code, is_refusal, json_bytes, screen_bytes] = fields;
    if (json_bytes > max_part_bytes || screen_bytes > max_part_bytes) return std::nullopt;
    return fields;
}

/// How many bytes at the end of `text` are the beginning of `mark`.
std::size_t begun(std::string_view text, std::string_view mark) {
    for (auto size = std::min(text.size(), mark.size() - 1); size > 0; --size)
        if (text.substr(text.size() - size) == mark.substr(0, size)) return size;
    return 0;
}

}  // namespace
}  // namespace report_frame

std::string framed(const std::string& token, const FramedReport& report) {
    return report_frame::mark_of(token) + std::to_string(report.exit_code) + ' ' +
           (report.is_refusal ? "1 " : "0 ") + std::to_string(report.json.size()) + ' ' +
           std::to_string(report.screen.size()) + '\n' + report.json + report.screen;
}

FrameReader::FrameReader(const std::string& token) : mark_(report_frame::mark_of(token)) {}

std::string FrameReader::append(std::string_view bytes) {
    buffer_ += bytes;
    std::string output;
    for (;;) {
        if (is_in_frame_ && !take_frame()) return output;
        const auto at = buffer_.find(mark_);
        is_in_frame_ = at != std::string::npos;
        const auto size = is_in_frame_ ? at : buffer_.size() - report_frame::begun(buffer_, mark_);
        output += buffer_.substr(0, size);
        buffer_.erase(0, size + (is_in_frame_ ? mark_.size() : 0));
        if (!is_in_frame_) return output;
    }
}

bool FrameReader::take_frame() {
    const auto end = buffer_.find('\n');
    if (end == std::string::npos) {
        is_in_frame_ = buffer_.size() <= report_frame::max_header_bytes;
        return !is_in_frame_;
    }
    const auto fields = report_frame::read_header(std::string_view{buffer_}.substr(0, end));
    if (!fields) {  // the header was not written by ddprun
        is_in_frame_ = false;
        return true;
    }
    const auto [exit_code, is_refusal, json_bytes, screen_bytes] = *fields;
    const auto begin = end + 1;
    const auto size = std::size_t{json_bytes} + screen_bytes;
    if (buffer_.size() - begin < size) return false;
    report_ = FramedReport{
        static_cast<int>(exit_code),
        is_refusal != 0,
        buffer_.substr(begin, json_bytes),
        buffer_.substr(begin + json_bytes, screen_bytes)};
    buffer_.erase(0, begin + size);
    is_in_frame_ = false;
    return true;
}

std::string FrameReader::finish() {
    is_in_frame_ = false;
    return std::exchange(buffer_, {});
}

}  // namespace ddprun::agent
