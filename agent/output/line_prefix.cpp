// SPDX-License-Identifier: Apache-2.0
#include "agent/output/line_prefix.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

namespace ddprun::agent {
namespace {

bool is_name_character(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::optional<std::string> value_of(std::string_view name, const PrefixValues& values) {
    if (name == "role_name") return values.role;
    if (name == "local_rank") return std::to_string(values.local_rank);
    if (name == "rank") return std::to_string(values.rank);
    if (name == "hostname") return values.host;
    return std::nullopt;
}

/// What stands behind a dollar.
struct Macro {
    std::string_view name;
    /// Of the whole macro, without the dollar; 0: it is none.
    std::size_t size = 0;
};

Macro macro_at(std::string_view text) {
    const std::size_t braces = text.starts_with('{') ? 1 : 0;
    const auto inside = text.substr(braces);
    const auto end = std::find_if_not(inside.begin(), inside.end(), is_name_character);
    const auto name = inside.substr(0, static_cast<std::size_t>(end - inside.begin()));
    const bool is_closed = braces == 0 || inside.substr(name.size()).starts_with('}');
    if (name.empty() || !is_closed) return {};
    return {name, name.size() + 2 * braces};
}

}  // namespace

LinePrefix::LinePrefix(std::string_view text, const PrefixValues& values) : fixed_(1) {
    for (;;) {
        const auto dollar = text.find('$');
        fixed_.back() += text.substr(0, dollar);
        if (dollar == std::string_view::npos) return;
        text.remove_prefix(dollar + 1);

        const auto macro = macro_at(text);
        const auto value = value_of(macro.name, values);
        if (text.starts_with('$')) {
            fixed_.back() += '$';
            text.remove_prefix(1);
        } else if (macro.name == "time") {
            fixed_.emplace_back();
            text.remove_prefix(macro.size);
        } else if (value) {
            fixed_.back() += *value;
            text.remove_prefix(macro.size);
        } else {
            fixed_.back() += '$';
        }
    }
}

void LinePrefix::append_to(std::string& out, std::string_view time) const {
    for (const auto& part : fixed_) {
        if (&part != &fixed_.front()) out += time;
        out += part;
    }
}

}  // namespace ddprun::agent
