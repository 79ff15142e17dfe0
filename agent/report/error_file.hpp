// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::agent {

/// A worker's report of its own failure, in the file named by TORCHELASTIC_ERROR_FILE.
struct ErrorReport {
    /// "ValueError: bad batch". One line or several.
    std::string message;
    /// The call stack; may be empty.
    std::string details;
    /// Its message gives another worker's death as the cause: the SDK's PeerLost.
    bool is_secondary = false;
    /// The time of the failure by the worker's clock, in seconds since 1970.
    std::optional<std::int64_t> unix_time = std::nullopt;

    bool operator==(const ErrorReport&) const = default;
};

/// Reads the two forms that PyTorch's `@record` and related programs write:
///
///   {"message": {"message": "...", "extraInfo": {"py_callstack": "...", "timestamp": "..."}}}
///   {"message": "...", "timestamp": ...}
///
/// The timestamp may be a number or text. A long call stack is cut to its end, a long message to
/// its beginning. None when the text has neither form: a worker may die while it writes, and the
/// report then uses the last lines of standard error. Never throws.
std::optional<ErrorReport> parse_error_file(std::string_view text);

}  // namespace ddprun::agent
