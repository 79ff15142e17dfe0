// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::agent {

/// What a worker wrote about its own failure into the file named by TORCHELASTIC_ERROR_FILE.
struct ErrorReport {
    /// "ValueError: bad batch". One line or several.
    std::string message;
    /// The call stack; may be empty.
    std::string details;
    /// Its message names another worker's death as its cause: the SDK's PeerLost.
    bool is_secondary = false;
    /// When, by its own clock, in seconds since 1970.
    std::optional<std::int64_t> unix_time = std::nullopt;

    bool operator==(const ErrorReport&) const = default;
};

/// Reads the two forms PyTorch's `@record` and its relatives write:
///
///   {"message": {"message": "...", "extraInfo": {"py_callstack": "...", "timestamp": "..."}}}
///   {"message": "...", "timestamp": ...}
///
/// The timestamp may be a number or text. Of a long call stack the end is kept, of a long message
/// the beginning. Nothing when the text is neither: a worker may die while it writes, and the
/// report then falls back to the last lines of standard error. Never throws.
std::optional<ErrorReport> parse_error_file(std::string_view text);

}  // namespace ddprun::agent
