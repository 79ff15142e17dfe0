// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/whole_lines.hpp"

#include "rendezvous/base/limits.hpp"

#include <utility>

namespace ddprun::launcher {

std::string WholeLines::append(std::string_view bytes) {
    const auto end = bytes.find_last_of("\r\n");
    if (end == std::string_view::npos) {
        begun_ += bytes;
        return begun_.size() < limits::max_line_bytes ? std::string{} : std::exchange(begun_, {});
    }
    auto whole = std::exchange(begun_, std::string{bytes.substr(end + 1)});
    whole += bytes.substr(0, end + 1);
    return whole;
}

std::string WholeLines::finish() {
    if (begun_.empty()) return {};
    return std::exchange(begun_, {}) + '\n';
}

}  // namespace ddprun::launcher
