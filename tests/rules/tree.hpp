// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

/// The source tree as the rules see it.
namespace ddprun::rules {

struct SourceFile {
    /// From the repository's root: "rendezvous/base/ids.hpp".
    std::string path;
    /// As it is.
    std::string text;
    /// The text with comments and the inside of string literals blanked; line numbers are
    /// unchanged.
    std::string code;

    bool is_in(std::string_view folder) const;
    /// The operand of each #include, with its quotes or brackets.
    std::vector<std::string> includes() const;
    /// "path:line" of each place where `word` occurs as a whole word; it may include a following
    /// "(" or other punctuation. With "::" in front: the global name, not a class's.
    std::vector<std::string> uses_of(std::string_view word) const;
};

/// All .hpp and .cpp files below the folders given.
std::vector<SourceFile> sources(const std::vector<std::string>& folders);

/// Requires: it exists.
std::string text_of(const std::string& path);

std::string without_comments(std::string_view text);

/// One per line, for a failure message; empty when there is none.
std::string listed(const std::vector<std::string>& lines);

}  // namespace ddprun::rules
