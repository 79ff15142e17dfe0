// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// The text with "%" and two hexadecimal digits for each byte that is not plain.
template <class IsPlain>
std::string percent_encoded(std::string_view text, IsPlain is_plain) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string result;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (is_plain(c))
            result += c;
        else
            result.append(1, '%').append(1, digits[byte >> 4U]).append(1, digits[byte & 15U]);
    }
    return result;
}

}  // namespace ddprun
