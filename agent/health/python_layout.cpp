// SPDX-License-Identifier: Apache-2.0
#include "agent/health/python_layout.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

namespace ddprun::agent::health {
namespace {

/// By offsetof over the headers of CPython 3.11.2 and 3.11.7: internal/pycore_runtime.h,
/// internal/pycore_interp.h, cpython/pystate.h, internal/pycore_frame.h, cpython/code.h,
/// cpython/unicodeobject.h. A minor version does not change them after its first release.
constexpr PythonLayout layout_3_11{
    .interpreters_head = 40,
    .interpreter_next = 0,
    .threads_head = 16,
    .thread_next = 8,
    .native_thread_id = 160,
    .thread_frame = 56,
    .has_cframe = true,
    .cframe_current = 8,
    .frame_code = 32,
    .frame_previous = 48,
    .frame_instruction = 56,
    .frame_owner = 69,
    .code_file = 112,
    .code_name = 128,
    .code_lines = 136,
    .code_first_line = 72,
    .code_instructions = 184,
    .bytes_size = 16,
    .bytes_data = 32,
    .text_length = 16,
    .text_state = 32,
    .ascii_size = 48,
    .wide_size = 72,
};

/// By the same headers of CPython 3.12.1.
constexpr PythonLayout layout_3_12{
    .interpreters_head = 40,
    .interpreter_next = 0,
    .threads_head = 72,
    .thread_next = 8,
    .native_thread_id = 144,
    .thread_frame = 56,
    .has_cframe = true,
    .cframe_current = 0,
    .frame_code = 0,
    .frame_previous = 8,
    .frame_instruction = 56,
    .frame_owner = 70,
    .code_file = 112,
    .code_name = 128,
    .code_lines = 136,
    .code_first_line = 68,
    .code_instructions = 192,
    .bytes_size = 16,
    .bytes_data = 32,
    .text_length = 16,
    .text_state = 32,
    .ascii_size = 40,
    .wide_size = 56,
};

/// The words of `_Py_DebugOffsets` behind its cookie that are used, by number: 1 is the version, 2
/// `free_threaded`, and so on. Each group begins with the size of its structure.
struct WordsOfOffsets {
    std::size_t runtime_size, interpreters_head;
    std::size_t interpreter_size, interpreter_next, threads_head;
    std::size_t thread_size, thread_next, current_frame, native_thread_id;
    std::size_t frame_size, previous, executable, instr_ptr, owner;
    std::size_t code_size, filename, qualname, linetable, firstlineno, instructions;
    std::size_t bytes_size, ob_size, ob_sval;
    std::size_t unicode_size, state, length, asciiobject_size;
};

/// CPython 3.13: internal/pycore_runtime.h.
constexpr WordsOfOffsets words_3_13{
    .runtime_size = 3,
    .interpreters_head = 5,
    .interpreter_size = 6,
    .interpreter_next = 8,
    .threads_head = 9,
    .thread_size = 19,
    .thread_next = 21,
    .current_frame = 23,
    .native_thread_id = 25,
    .frame_size = 28,
    .previous = 29,
    .executable = 30,
    .instr_ptr = 31,
    .owner = 33,
    .code_size = 34,
    .filename = 35,
    .qualname = 37,
    .linetable = 38,
    .firstlineno = 39,
    .instructions = 43,
    .bytes_size = 64,
    .ob_size = 65,
    .ob_sval = 66,
    .unicode_size = 67,
    .state = 68,
    .length = 69,
    .asciiobject_size = 70,
};

/// CPython 3.14: internal/pycore_debug_offsets.h, which has more of interpreters (threads_main,
/// code_object_generation, tlbc_generation), frames (stackpointer, tlbc_index), code (co_tlbc) and
/// sets.
constexpr WordsOfOffsets words_3_14{
    .runtime_size = 3,
    .interpreters_head = 5,
    .interpreter_size = 6,
    .interpreter_next = 8,
    .threads_head = 9,
    .thread_size = 22,
    .thread_next = 24,
    .current_frame = 26,
    .native_thread_id = 28,
    .frame_size = 31,
    .previous = 32,
    .executable = 33,
    .instr_ptr = 34,
    .owner = 36,
    .code_size = 39,
    .filename = 40,
    .qualname = 42,
    .linetable = 43,
    .firstlineno = 44,
    .instructions = 48,
    .bytes_size = 74,
    .ob_size = 75,
    .ob_sval = 76,
    .unicode_size = 77,
    .state = 78,
    .length = 79,
    .asciiobject_size = 80,
};

constexpr std::size_t words_read = 81;
using Words = std::array<std::uint64_t, words_read>;

/// The largest structure that is believed: `PyInterpreterState` and `_PyRuntimeState` have some
/// 300 KB; the offsets that are used lie at their beginning.
constexpr std::uint64_t largest_structure = 4 * 1024 * 1024;

/// True when each offset is inside its structure.
bool are_inside(const Words& words, std::size_t size, std::initializer_list<std::size_t> offsets) {
    const auto bytes = words[size];
    if (bytes == 0 || bytes > largest_structure) return false;
    return std::all_of(offsets.begin(), offsets.end(), [&](std::size_t offset) {
        return words[offset] < bytes && words[offset] < std::numeric_limits<std::uint16_t>::max();
    });
}

bool is_sound(const Words& words, const WordsOfOffsets& at) {
    return are_inside(words, at.runtime_size, {at.interpreters_head}) &&
           are_inside(words, at.interpreter_size, {at.interpreter_next, at.threads_head}) &&
           are_inside(
               words, at.thread_size, {at.thread_next, at.current_frame, at.native_thread_id}) &&
           are_inside(words, at.frame_size, {at.previous, at.executable, at.instr_ptr, at.owner}) &&
           are_inside(
               words,
               at.code_size,
               {at.filename, at.qualname, at.linetable, at.firstlineno, at.instructions}) &&
           are_inside(words, at.bytes_size, {at.ob_size, at.ob_sval}) &&
           are_inside(words, at.unicode_size, {at.state, at.length, at.asciiobject_size});
}

PythonLayout layout_of(const Words& words, const WordsOfOffsets& at) {
    const auto offset = [&](std::size_t word) { return static_cast<std::uint16_t>(words[word]); };
    return {
        .interpreters_head = offset(at.interpreters_head),
        .interpreter_next = offset(at.interpreter_next),
        .threads_head = offset(at.threads_head),
        .thread_next = offset(at.thread_next),
        .native_thread_id = offset(at.native_thread_id),
        .thread_frame = offset(at.current_frame),
        .has_cframe = false,
        .cframe_current = 0,
        .frame_code = offset(at.executable),
        .frame_previous = offset(at.previous),
        .frame_instruction = offset(at.instr_ptr),
        .frame_owner = offset(at.owner),
        .code_file = offset(at.filename),
        .code_name = offset(at.qualname),
        .code_lines = offset(at.linetable),
        .code_first_line = offset(at.firstlineno),
        .code_instructions = offset(at.instructions),
        .bytes_size = offset(at.ob_size),
        .bytes_data = offset(at.ob_sval),
        .text_length = offset(at.length),
        .text_state = offset(at.state),
        .ascii_size = offset(at.asciiobject_size),
        // PyCompactUnicodeObject adds `utf8_length` and `utf8`.
        .wide_size = static_cast<std::uint16_t>(offset(at.asciiobject_size) + 16),
    };
}

std::string version_text(std::uint32_t version) {
    return "Python " + std::to_string(version >> 24) + "." + std::to_string(version >> 16 & 0xff);
}

FoundLayout unknown_layout(std::string why_not) {
    return {false, {}, std::move(why_not)};
}

FoundLayout layout_by_itself(
    const PythonInterpreter& interpreter, const WordsOfOffsets& at, const ReadMemory& read) {
    constexpr std::string_view cookie = "xdebugpy";
    Words words{};
    if (!read(interpreter.runtime, std::as_writable_bytes(std::span{words})))
        return unknown_layout("its memory cannot be read");
    // The cookie is word 0; the version is compared without the numbers of the release.
    const bool is_of_version = std::memcmp(words.data(), cookie.data(), cookie.size()) == 0 &&
                               words[1] >> 16 == interpreter.version >> 16;
    if (!is_of_version)
        return unknown_layout(version_text(interpreter.version) + " with unknown offsets");
    if (words[2] != 0)
        return unknown_layout(version_text(interpreter.version) + " without a global lock");
    if (!is_sound(words, at))
        return unknown_layout(version_text(interpreter.version) + " with unknown offsets");
    return {true, layout_of(words, at), {}};
}

}  // namespace

FoundLayout python_layout(const PythonInterpreter& interpreter, const ReadMemory& read) {
    if (interpreter.version == 0) return unknown_layout("Python older than 3.11");
    switch (interpreter.version >> 16) {
        case 0x030b: return {true, layout_3_11, {}};
        case 0x030c: return {true, layout_3_12, {}};
        case 0x030d: return layout_by_itself(interpreter, words_3_13, read);
        case 0x030e: return layout_by_itself(interpreter, words_3_14, read);
    }
    return unknown_layout(version_text(interpreter.version) + " is not known");
}

}  // namespace ddprun::agent::health
