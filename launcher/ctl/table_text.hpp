// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::ctl {

using Row = std::vector<std::string>;

/// Columns as wide as their widest cell; nothing behind the last cell of a row. Requires: each cell
/// is printable and on one line.
std::string table_text(const std::vector<Row>& rows);

/// How many columns of a screen UTF-8 takes: two for an ideograph or an emoji, none for a mark on
/// another character.
std::size_t width_of(std::string_view text);

}  // namespace ddprun::launcher::ctl
