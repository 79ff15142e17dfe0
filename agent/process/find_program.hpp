// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <string>
#include <string_view>

namespace ddprun::agent {

/// The path that execvp would execute for `name`. With a slash in it, `name` itself; otherwise the
/// first match in `search_path` (the value of PATH; an empty element is the current directory).
///
/// An error says which of these it is, in one line that names the path: not found; a directory; no
/// permission to execute; a script whose `#!` interpreter does not exist. The code is ENOENT or
/// EACCES (EISDIR for a directory), as a shell would decide between 127 and 126.
/// Reads the disk. Requires: no NUL in `name`.
Result<std::string> find_program(const std::string& name, std::string_view search_path);

}  // namespace ddprun::agent
