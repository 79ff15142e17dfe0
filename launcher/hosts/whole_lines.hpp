// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ddprun::launcher {

/// One stream of one host among those of others: whole lines go on, the begin of one is kept until
/// its end comes. A return ends a line too, as in progress bars; a line longer than
/// limits::max_line_bytes goes on in parts. Pure.
class WholeLines {
public:
    std::string append(std::string_view bytes);
    /// What was kept, as a line, when nothing more comes.
    std::string finish();

private:
    std::string begun_;
};

}  // namespace ddprun::launcher
