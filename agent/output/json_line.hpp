// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/output/line_splitter.hpp"

#include <string>
#include <string_view>

namespace ddprun::agent {

/// Whose line it is.
struct LineOrigin {
    std::string run_id;
    int round = 0;
    std::string host;
    int rank = 0;
    /// "stdout" or "stderr".
    std::string_view stream;
};

/// Lines of one stream as JSON objects, one to a line: time, run, round, host, rank, stream,
/// message; a part of a line has its number in `part`, and `continues` when more of it follows.
/// Whatever the bytes are, the line parses. Pure.
class JsonLine {
public:
    explicit JsonLine(const LineOrigin& origin);

    void append_to(std::string& out, const LinePiece& piece, std::string_view time) const;

private:
    /// Everything between the time and the message.
    std::string origin_;
};

}  // namespace ddprun::agent
