// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/python_frames.hpp"

#include <cstdint>
#include <string>

namespace ddprun::agent::health {

/// Where CPython stores the parts of a stack: offsets in bytes, the same on all 64-bit processors.
struct PythonLayout {
    std::uint16_t interpreters_head;  ///< in _PyRuntime
    std::uint16_t interpreter_next, threads_head;
    std::uint16_t thread_next, native_thread_id;
    /// Points to the innermost frame, or to a `_PyCFrame` that points to it at `cframe_current`.
    std::uint16_t thread_frame;
    bool has_cframe;
    std::uint16_t cframe_current;
    std::uint16_t frame_code, frame_previous, frame_instruction, frame_owner;
    std::uint16_t code_file, code_name, code_lines, code_first_line, code_instructions;
    std::uint16_t bytes_size, bytes_data;
    std::uint16_t text_length, text_state, ascii_size;
    /// The size of a text's head when it has other characters than ASCII.
    std::uint16_t wide_size;
};

struct FoundLayout {
    bool is_known = false;
    PythonLayout layout{};
    std::string why_not;
};

FoundLayout python_layout(const PythonInterpreter& interpreter, const ReadMemory& read);

}  // namespace ddprun::agent::health
