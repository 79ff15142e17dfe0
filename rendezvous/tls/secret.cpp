// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/secret.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace ddprun::tls {
namespace {

constexpr std::string_view prefix = "ddprun-secret-1:";
constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::size_t secret_characters = 43;
constexpr std::string_view what_is_accepted = "ddprun-secret-1: and 43 of A-Z, a-z, 0-9, - and _";

Failure wrong(std::string what) {
    return {system_code(EINVAL), std::move(what)};
}

bool is_secret(std::string_view line) {
    if (!line.starts_with(prefix)) return false;
    line.remove_prefix(prefix.size());
    return line.size() == secret_characters &&
           line.find_first_not_of(alphabet) == std::string_view::npos;
}

}  // namespace

Result<std::vector<Secret>> parse_secrets(std::string_view text) {
    std::vector<Secret> secrets;
    std::size_t number = 0;
    for (const auto part : split(text, '\n')) {
        ++number;
        const auto line = trimmed(part);
        if (line.empty()) continue;
        if (!is_secret(line))
            return wrong(
                "line " + std::to_string(number) + " is no secret: accepted is " +
                std::string{what_is_accepted});
        Secret secret{std::string{line.substr(prefix.size())}};
        if (std::find(secrets.begin(), secrets.end(), secret) != secrets.end()) continue;
        if (secrets.size() == limits::max_secrets)
            return wrong("more than " + std::to_string(limits::max_secrets) + " secrets");
        secrets.push_back(std::move(secret));
    }
    if (secrets.empty())
        return wrong("no secret in it: accepted is " + std::string{what_is_accepted});
    return secrets;
}

Result<SecretSource> secrets_of_variable(std::string_view value) {
    const std::string origin = secret_variable;
    auto secrets = parse_secrets(value);
    if (!secrets) return Failure{secrets.error().code, origin + ": " + secrets.error().context};
    return SecretSource{origin, {}, std::move(*secrets)};
}

std::string text_of(const std::vector<Secret>& secrets) {
    std::string text;
    for (const auto& secret : secrets)
        text += std::string{prefix} + secret.characters() + '\n';
    return text;
}

std::string secret_line(const std::array<std::uint8_t, 32>& random) {
    constexpr unsigned bits_of_character = 6;
    std::string line{prefix};
    unsigned held = 0;
    unsigned held_bits = 0;
    for (const auto byte : random) {
        held = held << 8U | byte;
        for (held_bits += 8; held_bits >= bits_of_character;) {
            held_bits -= bits_of_character;
            line += alphabet[held >> held_bits & 0x3FU];
        }
    }
    line += alphabet[held << (bits_of_character - held_bits) & 0x3FU];
    return line + '\n';
}

}  // namespace ddprun::tls
