// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/python_frames.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::agent::health {

struct FoundPython {
    std::optional<PythonInterpreter> interpreter;
    /// Why none was found: "no Python interpreter", "Python older than 3.11".
    std::string why_not;
};

/// Looks for an interpreter in the files that a process has mapped: in its program, and in those
/// that are named "python..." or "libpython...". Their symbols are read from memory. No file is
/// opened, since it may be in a container or on a file system that hangs.
///
/// `maps`: /proc/PID/maps, or its beginning.
FoundPython find_python(std::string_view maps, const ReadMemory& read);

}  // namespace ddprun::agent::health
