// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::ctl {

using Row = std::vector<std::string>;

/// Columns are as wide as their widest cell; the last cell of a row is not padded. Requires: each
/// cell is printable and on one line.
std::string table_text(const std::vector<Row>& rows);

/// How many screen columns a UTF-8 text takes: two for an ideograph or an emoji, none for a
/// combining mark.
std::size_t width_of(std::string_view text);

}  // namespace ddprun::launcher::ctl
