// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/sample.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

/// Reads the Python stacks of a process from its memory while it runs. Nothing is assumed about the
/// bytes: they may change meanwhile, or be something else than they seem.
///
/// CPython 3.11 and 3.12 by a table of offsets, 3.13 and 3.14 by the table that the interpreter
/// provides (`_Py_DebugOffsets`). CPython's headers are not used, since one build must support all
/// of these versions.
namespace ddprun::agent::health {

/// Fills `into` completely with the bytes at `address`, or returns false.
using ReadMemory = std::function<bool(std::uint64_t address, std::span<std::byte> into)>;

/// The location of an interpreter in the memory of a process (find_python.hpp).
struct PythonInterpreter {
    /// Address of `_PyRuntime`.
    std::uint64_t runtime = 0;
    /// Address of `PyCode_Type`, to which every code object points.
    std::uint64_t code_type = 0;
    /// As PY_VERSION_HEX; 0: older than 3.11.
    std::uint32_t version = 0;

    bool operator==(const PythonInterpreter&) const = default;
};

struct PythonThreads {
    std::vector<PythonThread> threads;
    /// Why there are no stacks.
    std::string why_not;
};

PythonThreads read_python_threads(const PythonInterpreter& interpreter, const ReadMemory& read);

/// The line of the instruction at `offset` bytes, from a code object's `co_linetable` (CPython's
/// Objects/locations.md). 0: it has no line, or the table is invalid.
int line_at(std::span<const std::byte> line_table, int first_line, std::uint64_t offset);

}  // namespace ddprun::agent::health
