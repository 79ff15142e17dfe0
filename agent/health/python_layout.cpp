// SPDX-License-Identifier: Apache-2.0
#include "agent/health/python_layout.hpp"

#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace ddprun::agent::health {
namespace {

/// From offsetof over the headers of CPython 3.11.2 and 3.11.7: internal/pycore_runtime.h,
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

/// From the same headers of CPython 3.12.1.
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

/// Where the groups of `_Py_DebugOffsets` begin, in words of eight bytes; the cookie is word 0, the
/// version 1 and `free_threaded` 2. Each group describes a structure and begins with its size. The
/// words after it have kept their places since 3.13; new words are added at the end of a group.
struct OffsetGroups {
    std::size_t runtime, interpreter, thread, frame, code, bytes, unicode;
};

/// CPython 3.13: internal/pycore_runtime.h.
constexpr OffsetGroups groups_3_13{
    .runtime = 3,
    .interpreter = 6,
    .thread = 19,
    .frame = 28,
    .code = 34,
    .bytes = 64,
    .unicode = 67,
};

/// CPython 3.14: internal/pycore_debug_offsets.h. The group of interpreters has three more words
/// (threads_main comes after those used here), frames two, code one, and there is a group for sets.
constexpr OffsetGroups groups_3_14{
    .runtime = 3,
    .interpreter = 6,
    .thread = 22,
    .frame = 31,
    .code = 39,
    .bytes = 74,
    .unicode = 77,
};

constexpr std::size_t words_read = groups_3_14.unicode + 4;
using Words = std::array<std::uint64_t, words_read>;

/// The largest size of a structure that is accepted: `PyInterpreterState` and `_PyRuntimeState`
/// have about 300 KB, and the used offsets are near their beginning.
constexpr std::uint64_t largest_structure = 4 * 1024 * 1024;

/// The offsets in one group.
class Group {
public:
    /// Sets `is_sound` to false when an offset is outside of the structure.
    Group(const Words& words, std::size_t begin, bool& is_sound)
        : words_(words),
          begin_(begin),
          is_sound_(is_sound) {
        const auto size = words_[begin_];
        is_sound_ &= size > 0 && size <= largest_structure;
    }

    std::uint16_t operator[](std::size_t word) const {
        const auto offset = words_[begin_ + word];
        is_sound_ &= offset < words_[begin_] && offset < std::numeric_limits<std::uint16_t>::max();
        return static_cast<std::uint16_t>(offset);
    }

private:
    const Words& words_;
    std::size_t begin_;
    bool& is_sound_;
};

/// None: an offset is outside of its structure.
std::optional<PythonLayout> layout_of(const Words& words, const OffsetGroups& at) {
    bool is_sound = true;
    const Group runtime(words, at.runtime, is_sound);
    const Group interpreter(words, at.interpreter, is_sound);
    const Group thread(words, at.thread, is_sound);
    const Group frame(words, at.frame, is_sound);
    const Group code(words, at.code, is_sound);
    const Group bytes(words, at.bytes, is_sound);
    const Group unicode(words, at.unicode, is_sound);
    const PythonLayout layout{
        .interpreters_head = runtime[2],
        .interpreter_next = interpreter[2],
        .threads_head = interpreter[3],
        .thread_next = thread[2],
        .native_thread_id = thread[6],
        .thread_frame = thread[4],
        .has_cframe = false,
        .cframe_current = 0,
        .frame_code = frame[2],
        .frame_previous = frame[1],
        .frame_instruction = frame[3],
        .frame_owner = frame[5],
        .code_file = code[1],
        .code_name = code[3],
        .code_lines = code[4],
        .code_first_line = code[5],
        .code_instructions = code[9],
        .bytes_size = bytes[1],
        .bytes_data = bytes[2],
        .text_length = unicode[2],
        .text_state = unicode[1],
        .ascii_size = unicode[3],
        // PyCompactUnicodeObject adds `utf8_length` and `utf8`.
        .wide_size = static_cast<std::uint16_t>(unicode[3] + 16),
    };
    return is_sound ? std::optional{layout} : std::nullopt;
}

std::string version_text(std::uint32_t version) {
    return "Python " + std::to_string(version >> 24) + "." + std::to_string(version >> 16 & 0xff);
}

FoundLayout unknown_layout(std::string why_not) {
    return {false, {}, std::move(why_not)};
}

FoundLayout layout_by_itself(
    const PythonInterpreter& interpreter, const OffsetGroups& at, const ReadMemory& read) {
    constexpr std::string_view cookie = "xdebugpy";
    Words words{};
    if (!read(interpreter.runtime, std::as_writable_bytes(std::span{words})))
        return unknown_layout("its memory cannot be read");
    // The cookie is word 0; of the version only major and minor are compared.
    const bool is_of_version = std::memcmp(words.data(), cookie.data(), cookie.size()) == 0 &&
                               words[1] >> 16 == interpreter.version >> 16;
    if (!is_of_version)
        return unknown_layout(version_text(interpreter.version) + " with unknown offsets");
    if (words[2] != 0)
        return unknown_layout(version_text(interpreter.version) + " without a global lock");
    const auto layout = layout_of(words, at);
    if (!layout) return unknown_layout(version_text(interpreter.version) + " with unknown offsets");
    return {true, *layout, {}};
}

}  // namespace

FoundLayout python_layout(const PythonInterpreter& interpreter, const ReadMemory& read) {
    if (interpreter.version == 0) return unknown_layout("Python older than 3.11");
    switch (interpreter.version >> 16) {
        case 0x030b: return {true, layout_3_11, {}};
        case 0x030c: return {true, layout_3_12, {}};
        case 0x030d: return layout_by_itself(interpreter, groups_3_13, read);
        case 0x030e: return layout_by_itself(interpreter, groups_3_14, read);
    }
    return unknown_layout(version_text(interpreter.version) + " is not known");
}

}  // namespace ddprun::agent::health
