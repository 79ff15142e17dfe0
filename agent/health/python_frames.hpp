// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/sample.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

/// The Python stacks of a process, out of its memory while it runs. Nothing is assumed of what is
/// read: it may change meanwhile, or be something else than it seems.
///
/// CPython 3.11 and 3.12 by a table of offsets, 3.13 and 3.14 by the table that the interpreter has
/// of itself (`_Py_DebugOffsets`). The headers of CPython are not used: a build knows all of them.
namespace ddprun::agent::health {

/// Fills all of `into` with what is at `address`, or returns false.
using ReadMemory = std::function<bool(std::uint64_t address, std::span<std::byte> into)>;

/// Where an interpreter is in the memory of a process (find_python.hpp).
struct PythonInterpreter {
    /// Address of `_PyRuntime`.
    std::uint64_t runtime = 0;
    /// Address of `PyCode_Type`: what every code object points to.
    std::uint64_t code_type = 0;
    /// As PY_VERSION_HEX; 0: older than 3.11.
    std::uint32_t version = 0;

    bool operator==(const PythonInterpreter&) const = default;
};

struct PythonThreads {
    std::vector<PythonThread> threads;
    /// Why there are none.
    std::string why_not;
};

PythonThreads read_python_threads(const PythonInterpreter& interpreter, const ReadMemory& read);

/// Line of the instruction `offset` bytes behind the first one, by a code object's `co_linetable`
/// (CPython's Objects/locations.md). 0: it has none, or the table is not one.
int line_at(std::span<const std::byte> line_table, int first_line, std::uint64_t offset);

}  // namespace ddprun::agent::health
