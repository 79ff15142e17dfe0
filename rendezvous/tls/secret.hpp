// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The text form of the job secret: a line of `ddprun-secret-1:` and 43 characters, which are 256
/// random bits in base64url. Pure.
namespace ddprun::tls {

/// A separate type, so that a secret is not printed by mistake like other text.
class Secret {
public:
    explicit Secret(std::string characters) : characters_(std::move(characters)) {}

    /// Without the prefix: the key material.
    const std::string& characters() const { return characters_; }

    bool operator==(const Secret&) const = default;

private:
    std::string characters_;
};

/// The secrets of a file or variable, in order. The first is used, all are accepted. Equal lines
/// count once; empty lines are ignored. The context of a failure names the line, never its content.
Result<std::vector<Secret>> parse_secrets(std::string_view text);

/// Identifies the version of the file that was read.
struct FileStamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t changed_at_ns = 0;
    std::int64_t size = 0;

    bool operator==(const FileStamp&) const = default;
};

/// Where a program's secrets come from.
struct SecretSource {
    /// For messages: "--rdzv-secret-file", "DDPRUN_SECRET".
    std::string origin;
    /// Empty: the secrets come from a variable and do not change.
    std::string path;
    std::vector<Secret> secrets;
    FileStamp stamp = {};
    /// The path must not be a link, either now or when the file is read again.
    bool is_no_link = false;

    /// "/etc/job/secret", "DDPRUN_SECRET".
    const std::string& name() const { return path.empty() ? origin : path; }
    bool operator==(const SecretSource&) const = default;
};

inline constexpr const char* secret_variable = "DDPRUN_SECRET";

/// The file of --secure.
inline std::string own_secret_file(std::string_view home) {
    return std::string{home} + "/.config/ddprun/secret";
}

/// The secrets as text, in the form that `parse_secrets` reads.
std::string text_of(const std::vector<Secret>& secrets);

/// The secrets of DDPRUN_SECRET. No message contains the value.
Result<SecretSource> secrets_of_variable(std::string_view value);

/// The line for a new secret, with its line feed.
std::string secret_line(const std::array<std::uint8_t, 32>& random);

}  // namespace ddprun::tls
