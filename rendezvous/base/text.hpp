// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// Formats numbers and lists, in the same way for every screen and log; and the basic functions of
/// the small text parsers.
namespace ddprun {

/// "SIGTERM"; "SIGRTMIN+3"; "signal 99" for a number without a name.
std::string signal_name(int signal);

/// "30 s", "2.5 s".
std::string seconds_text(Duration length);

/// The text without the blanks at both ends.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n");

/// The last line that is not blank, without the blanks at both ends; empty: there is none. Programs
/// write the reason of their failure last.
std::string_view last_line(std::string_view text);

/// The beginning of the text, of at most so many bytes; no UTF-8 character is cut in two.
std::string_view beginning_of(std::string_view text, std::size_t most_bytes);

/// The word quoted for a shell. It is in single quotes, unless it has only characters that no
/// common shell expands (some expand "[" and "^").
std::string shell_word(std::string_view text);

/// How a list is shortened: "a, b and 3 more".
struct Shortening {
    /// How many items are named.
    std::size_t most;
    std::string_view between = ", ";
    std::string_view before_rest = " and ";
};

/// Returns the first items, each formatted by `text_of`, and the number of the other items.
template <class Items, class TextOf = std::identity>
std::string short_list(const Items& items, const Shortening& by, TextOf text_of = {}) {
    std::string text;
    for (std::size_t i = 0; i < std::min(items.size(), by.most); ++i) {
        if (i > 0) text += by.between;
        text += text_of(items[i]);
    }
    if (items.size() > by.most) {
        text += by.before_rest;
        text += std::to_string(items.size() - by.most) + " more";
    }
    return text;
}

/// All parts between the separators, including empty ones; a text without a separator is one part.
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace ddprun
