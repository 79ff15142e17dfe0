// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ddprun::launcher {

/// Passes on one host's stream in whole lines, so that it can be mixed with others: the beginning
/// of a line is kept until its end arrives. A carriage return ends a line too, as in progress bars;
/// a line longer than limits::max_line_bytes is split. Pure.
class WholeLines {
public:
    std::string append(std::string_view bytes);
    /// Returns the kept text as a line; call it at the end of the stream.
    std::string finish();

private:
    std::string begun_;
};

}  // namespace ddprun::launcher
