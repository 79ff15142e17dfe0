// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/redacted.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace ddprun {
namespace redaction {
namespace {

using namespace std::string_view_literals;

constexpr auto replacement = "[redacted]"sv;
constexpr std::array names{
    "password"sv,
    "passwd"sv,
    "passphrase"sv,
    "secret"sv,
    "token"sv,
    "apikey"sv,
    "api_key"sv,
    "api-key"sv,
    "access_key"sv,
    "private_key"sv,
    "credential"sv,
    "credentials"sv,
    "authorization"sv};
constexpr std::array beginnings{
    "hf_"sv,
    "ghp_"sv,
    "gho_"sv,
    "ghs_"sv,
    "github_pat_"sv,
    "glpat-"sv,
    "sk-"sv,
    "xoxb-"sv,
    "xoxp-"sv,
    "AKIA"sv,
    "ASIA"sv,
    "eyJ"sv};
/// A shorter word with such a beginning counts as an ordinary word.
constexpr std::size_t shortest_token = 16;

bool is_of_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

bool is_blank_or_quote(char c) {
    return c == ' ' || c == '\t' || c == '"' || c == '\'';
}

bool ends_value(char c) {
    return std::isspace(static_cast<unsigned char>(c)) != 0 ||
           "\"',;)}]&"sv.find(c) != std::string_view::npos;
}

bool is_secret_name(std::string_view word) {
    std::string lower{word};
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
        return static_cast<char>(std::tolower(c));
    });
    return std::any_of(
        names.begin(), names.end(), [&](auto name) { return lower.ends_with(name); });
}

bool is_known_token(std::string_view word) {
    return word.size() >= shortest_token &&
           std::any_of(beginnings.begin(), beginnings.end(), [&](auto beginning) {
               return word.starts_with(beginning);
           });
}

template <class Predicate>
std::size_t length_while(std::string_view text, Predicate predicate) {
    const auto end = std::find_if_not(text.begin(), text.end(), predicate);
    return static_cast<std::size_t>(end - text.begin());
}

/// The number of bytes between a name and its value, `=` or `:` included; 0: no value follows.
std::size_t separator_bytes(std::string_view text) {
    const auto before = length_while(text, is_blank_or_quote);
    if (before == text.size() || (text[before] != '=' && text[before] != ':')) return 0;
    return before + 1 + length_while(text.substr(before + 1), is_blank_or_quote);
}

/// The length of a value, including a word before it that only names its kind.
std::size_t value_bytes(std::string_view text) {
    const auto size = length_while(text, [](char c) { return !ends_value(c); });
    for (const auto scheme : {"Bearer"sv, "Basic"sv, "bearer"sv, "basic"sv})
        if (text.substr(0, size) == scheme && size < text.size())
            return size + 1 + value_bytes(text.substr(size + 1));
    return size;
}

/// In "//user:password@host": the number of bytes before the password, and the length of the
/// password.
struct Password {
    std::size_t at = 0;
    std::size_t bytes = 0;
};

Password password_in_url(std::string_view text) {
    if (!text.starts_with("//")) return {};
    const auto end = 2 + length_while(text.substr(2), [](char c) {
                         return !ends_value(c) && c != '/' && c != '@';
                     });
    if (end >= text.size() || text[end] != '@') return {};
    const auto colon = text.find(':');
    if (colon == std::string_view::npos || colon + 1 >= end) return {};
    return {colon + 1, end - colon - 1};
}

}  // namespace
}  // namespace redaction

std::string redacted(std::string_view text) {
    using namespace redaction;
    std::string result;
    const auto take = [&](std::size_t size) {
        result += text.substr(0, size);
        text.remove_prefix(size);
    };
    const auto hide = [&](std::size_t size) {
        if (size > 0) result += replacement;
        text.remove_prefix(size);
    };
    while (!text.empty()) {
        if (const auto password = password_in_url(text); password.bytes > 0) {
            take(password.at);
            hide(password.bytes);
            continue;
        }
        const auto word = text.substr(0, length_while(text, is_of_word));
        if (word.empty()) {
            take(1);
        } else if (is_known_token(word)) {
            hide(length_while(text, [](char c) { return is_of_word(c) || c == '.'; }));
        } else {
            const bool is_name = is_secret_name(word);
            take(word.size());
            const auto between = is_name ? separator_bytes(text) : 0;
            take(between);
            if (between > 0) hide(value_bytes(text));
        }
    }
    return result;
}

}  // namespace ddprun
