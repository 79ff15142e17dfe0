// SPDX-License-Identifier: Apache-2.0
#include "tests/rules/tree.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace ddprun::rules {
namespace {

const std::filesystem::path root = DDPRUN_SOURCE_DIR;

bool is_word_character(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

}  // namespace

std::string without_comments(std::string_view text) {
    std::string code{text};
    const auto blank = [&](std::size_t from, std::size_t to) {
        for (auto i = from; i < std::min(to, code.size()); ++i)
            if (code[i] != '\n') code[i] = ' ';
    };
    const auto after = [&](std::string_view what, std::size_t from) {
        const auto found = text.find(what, from);
        return found == std::string_view::npos ? text.size() : found + what.size();
    };
    for (std::size_t i = 0; i < text.size();) {
        const auto rest = text.substr(i);
        if (rest.starts_with("#include")) {
            i = after("\n", i);
        } else if (rest.starts_with("//")) {
            const auto end = std::min(text.find('\n', i), text.size());
            blank(i, end);
            i = end;
        } else if (rest.starts_with("/*")) {
            const auto end = after("*/", i + 2);
            blank(i, end);
            i = end;
        } else if (rest.starts_with("R\"(")) {
            const auto end = after(")\"", i);
            blank(i + 3, end - 2);
            i = end;
        } else if (
            rest[0] == '"' || (rest[0] == '\'' && (i == 0 || !is_word_character(text[i - 1])))) {
            auto end = i + 1;
            while (end < text.size() && text[end] != rest[0] && text[end] != '\n')
                end += text[end] == '\\' ? 2 : 1;
            blank(i + 1, end);
            i = end + 1;
        } else {
            ++i;
        }
    }
    return code;
}

bool SourceFile::is_in(std::string_view folder) const {
    return path.starts_with(folder) &&
           (folder.ends_with('/') || path.size() == folder.size() || path[folder.size()] == '/');
}

std::vector<std::string> SourceFile::includes() const {
    constexpr std::string_view directive = "#include ";
    std::vector<std::string> found;
    for (auto at = code.find(directive); at != std::string::npos;
         at = code.find(directive, at + 1)) {
        const auto begin = at + directive.size();
        found.push_back(code.substr(begin, code.find('\n', begin) - begin));
    }
    return found;
}

std::vector<std::string> SourceFile::uses_of(std::string_view word) const {
    std::vector<std::string> places;
    for (auto at = code.find(word); at != std::string::npos; at = code.find(word, at + 1)) {
        const auto end = at + word.size();
        const bool must_begin = is_word_character(word.front()) || word.starts_with("::");
        if (at > 0 && must_begin && is_word_character(code[at - 1])) continue;
        if (end < code.size() && is_word_character(word.back()) && is_word_character(code[end]))
            continue;
        const auto line =
            1 + std::count(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(at), '\n');
        places.push_back(path + ":" + std::to_string(line) + ": " + std::string{word});
    }
    return places;
}

std::vector<SourceFile> sources(const std::vector<std::string>& folders) {
    std::vector<SourceFile> files;
    for (const auto& folder : folders) {
        if (!std::filesystem::exists(root / folder)) continue;
        for (const auto& entry : std::filesystem::recursive_directory_iterator{root / folder}) {
            const auto extension = entry.path().extension();
            if (extension != ".hpp" && extension != ".cpp") continue;
            const auto path = entry.path().lexically_relative(root).string();
            auto text = text_of(path);
            auto code = without_comments(text);
            files.push_back({path, std::move(text), std::move(code)});
        }
    }
    std::sort(
        files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
    if (files.empty()) throw std::runtime_error("no source file found: the rule reads nothing");
    return files;
}

std::string text_of(const std::string& path) {
    std::ifstream stream{root / path, std::ios::binary};
    if (!stream) throw std::runtime_error(path + " cannot be read");
    return {std::istreambuf_iterator<char>{stream}, {}};
}

std::string listed(const std::vector<std::string>& lines) {
    std::string text;
    for (const auto& line : lines)
        text += "\n" + line;
    return text;
}

}  // namespace ddprun::rules
