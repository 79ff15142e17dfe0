// SPDX-License-Identifier: Apache-2.0
#include "agent/health/python_frames.hpp"

#include "agent/health/python_layout.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/printable.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace ddprun::agent::health {
namespace {

/// How many `PyThreadState`s of one interpreter are visited. More are visited than shown, because
/// the main thread is last in CPython's list.
constexpr std::size_t most_walked_threads = 16 * limits::max_python_threads;
constexpr std::size_t most_interpreters = 8;
/// Frames between two functions that belong to no Python function (calls from C).
constexpr int most_foreign_frames = 2 * static_cast<int>(limits::max_python_frames);

/// The ob_type of any object, after its reference count.
constexpr std::uint64_t type_offset = 8;
/// The co_names of a code object, a tuple: after the object's head and co_consts in each known
/// version (cpython/code.h of 3.11 to 3.14).
constexpr std::uint64_t names_offset = 32;
constexpr std::uint64_t tuple_size_offset = 16;
constexpr std::uint64_t tuple_items_offset = 24;
/// No relevant function has more names.
constexpr std::int64_t most_names = 512;
/// The owner of an interpreter frame: FRAME_OWNED_BY_CSTACK, since 3.14 FRAME_OWNED_BY_INTERPRETER.
constexpr std::uint8_t owned_by_interpreter = 3;
/// The low bits of an object reference encode its reference counting (3.14).
constexpr std::uint64_t reference_bits = 7;

template <class Number>
std::optional<Number> number_at(const ReadMemory& read, std::uint64_t address) {
    Number number{};
    if (!read(address, std::as_writable_bytes(std::span{&number, 1}))) return std::nullopt;
    return number;
}

// ---- names --------------------------------------------------------------------------------------

void append_utf8(std::string& text, std::uint32_t code) {
    const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
    if (code < 0x80) {
        add(code);
    } else if (code < 0x800) {
        add(0xc0 | code >> 6);
        add(0x80 | (code & 0x3f));
    } else if (code < 0x10000 && (code < 0xd800 || code > 0xdfff)) {
        add(0xe0 | code >> 12);
        add(0x80 | (code >> 6 & 0x3f));
        add(0x80 | (code & 0x3f));
    } else if (code >= 0x10000 && code < 0x110000) {
        add(0xf0 | code >> 18);
        add(0x80 | (code >> 12 & 0x3f));
        add(0x80 | (code >> 6 & 0x3f));
        add(0x80 | (code & 0x3f));
    } else {
        add('?');
    }
}

/// How many leading characters of a long name are skipped: a function's scope matters less than its
/// name, and a file's folder less than the file.
std::size_t first_shown(std::uint64_t length, std::uint64_t most) {
    return static_cast<std::size_t>(length > most ? length - most : 0);
}

/// Reads a `str` in its compact form, as all names in code are; of a long one only the end.
std::string text_at(const PythonLayout& layout, const ReadMemory& read, std::uint64_t address) {
    const auto length = number_at<std::int64_t>(read, address + layout.text_length);
    const auto state = number_at<std::uint32_t>(read, address + layout.text_state);
    if (!length || !state || *length <= 0) return {};
    // interned:2, kind:3, compact:1, ascii:1
    const std::uint32_t bytes_each = *state >> 2 & 7;
    const bool is_compact = (*state >> 5 & 1) != 0;
    const bool is_ascii = (*state >> 6 & 1) != 0;
    const bool is_kind = bytes_each == 1 || (!is_ascii && (bytes_each == 2 || bytes_each == 4));
    if (!is_compact || !is_kind) return {};

    // With four bytes per character, each may need four bytes of UTF-8.
    const auto most = limits::max_sampled_name_bytes / (is_ascii ? 1 : 4);
    const auto total = static_cast<std::uint64_t>(*length);
    const auto first = first_shown(total, most);
    std::array<std::byte, limits::max_sampled_name_bytes> bytes;
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(total, most));
    const auto used = std::span{bytes}.first(count * bytes_each);
    const auto data = address + (is_ascii ? layout.ascii_size : layout.wide_size);
    if (!read(data + std::uint64_t{first} * bytes_each, used)) return {};
    std::string text = first > 0 ? "..." : "";
    for (std::size_t i = 0; i < used.size(); i += bytes_each) {
        std::uint32_t code = 0;
        for (std::uint32_t byte = 0; byte < bytes_each; ++byte)
            code |= std::to_integer<std::uint32_t>(used[i + byte]) << (8 * byte);
        append_utf8(text, code);
    }
    return printable_line(text);
}

/// "main.<locals>.Loader.read" -> "Loader.read"
std::string without_scope(std::string name) {
    constexpr std::string_view inside = "<locals>.";
    if (const auto at = name.rfind(inside); at != std::string::npos)
        name.erase(0, at + inside.size());
    return name;
}

// ---- line tables --------------------------------------------------------------------------------

/// Reads a line table entry by entry.
class LineTable {
public:
    explicit LineTable(std::span<const std::byte> bytes) : bytes_(bytes) {}

    bool is_over() const { return at_ >= bytes_.size(); }
    std::uint8_t byte() {
        return is_over() ? std::uint8_t{0} : std::to_integer<std::uint8_t>(bytes_[at_++]);
    }
    std::uint32_t variable() {
        std::uint32_t value = 0;
        for (std::uint32_t shift = 0; shift < 32; shift += 6) {
            const auto part = byte();
            value |= static_cast<std::uint32_t>(part & 0x3f) << shift;
            if ((part & 0x40) == 0) break;
        }
        return value;
    }
    std::int64_t variable_signed() {
        const auto value = variable();
        const auto size = static_cast<std::int64_t>(value >> 1);
        return (value & 1) != 0 ? -size : size;
    }
    /// In an entry all bytes but the first have their highest bit clear.
    void skip_entry() {
        while (!is_over() && (std::to_integer<std::uint8_t>(bytes_[at_]) & 0x80) == 0)
            ++at_;
    }

private:
    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
};

/// Facts about a function, the same for all of its frames.
struct Code {
    std::string name;
    std::string file;
    int first_line = 0;
    std::vector<std::byte> lines;
    bool calls_wait = false;
};

/// Reads all stacks of a process once.
class StackReader {
public:
    StackReader(
        const PythonInterpreter& interpreter, const PythonLayout& layout, const ReadMemory& read)
        : interpreter_(interpreter),
          layout_(layout),
          read_(read) {}

    /// Addresses of the `PyThreadState`s, the main interpreter's main thread first.
    std::vector<std::uint64_t> list_threads() const {
        std::vector<std::uint64_t> threads;
        for (const auto interpreter : oldest_first(
                 interpreter_.runtime + layout_.interpreters_head,
                 layout_.interpreter_next,
                 most_interpreters)) {
            const auto of_it = oldest_first(
                interpreter + layout_.threads_head, layout_.thread_next, most_walked_threads);
            threads.insert(threads.end(), of_it.begin(), of_it.end());
        }
        return threads;
    }

    /// Reads the thread's stack. If it did not change during one of the attempts, the result is
    /// consistent; else it is the last attempt's.
    PythonThread read_thread(std::uint64_t address) {
        PythonThread thread;
        for (int attempt = 0; attempt < limits::max_stack_attempts; ++attempt) {
            thread = {};
            const auto tid = number_at<std::uint64_t>(read_, address + layout_.native_thread_id);
            // Linux has no more than four million of them.
            if (tid && *tid <= 1U << 22U) thread.tid = static_cast<int>(*tid);
            const auto innermost = innermost_frame(address);
            if (!innermost) continue;
            const bool is_complete = read_frames(*innermost, thread);
            if (is_complete && innermost_frame(address) == innermost) break;
        }
        frames_read_ += thread.frames.size();
        return thread;
    }

private:
    std::optional<std::uint64_t> pointer(std::uint64_t address) const {
        return number_at<std::uint64_t>(read_, address);
    }

    /// The elements of a list at whose front CPython inserts, oldest first.
    std::vector<std::uint64_t> oldest_first(
        std::uint64_t head, std::uint64_t next, std::size_t most) const {
        std::vector<std::uint64_t> elements;
        for (auto element = pointer(head); element && *element != 0 && elements.size() < most;
             element = pointer(*element + next))
            elements.push_back(*element);
        std::reverse(elements.begin(), elements.end());
        return elements;
    }

    std::optional<std::uint64_t> innermost_frame(std::uint64_t thread) const {
        const auto frame = pointer(thread + layout_.thread_frame);
        if (!layout_.has_cframe || !frame || *frame == 0) return frame;
        return pointer(*frame + layout_.cframe_current);
    }

    /// Returns false at something that is not a frame.
    bool read_frames(std::uint64_t frame, PythonThread& thread) {
        int foreign_frames = 0;
        while (frame != 0) {
            if (thread.frames.size() >= limits::max_python_frames ||
                frames_read_ + thread.frames.size() >= limits::max_sampled_frames)
                return true;
            const auto previous = pointer(frame + layout_.frame_previous);
            const auto owner = number_at<std::uint8_t>(read_, frame + layout_.frame_owner);
            if (!previous || !owner) return false;
            if (*owner == owned_by_interpreter) {
                if (++foreign_frames > most_foreign_frames) return false;
            } else if (!read_frame(frame, thread)) {
                return false;
            }
            frame = *previous;
        }
        return true;
    }

    bool read_frame(std::uint64_t frame, PythonThread& thread) {
        auto code_address = pointer(frame + layout_.frame_code);
        const auto instruction = pointer(frame + layout_.frame_instruction);
        if (!code_address || !instruction) return false;
        *code_address &= ~reference_bits;
        const auto* const code = code_at(*code_address);
        if (code == nullptr) return false;
        const auto offset = *instruction - (*code_address + layout_.code_instructions);
        int line = line_at(code->lines, code->first_line, offset);
        if (line == 0) line = code->first_line;
        if (thread.frames.empty()) {
            thread.instruction = mixed(frame, *instruction);
            thread.calls_wait = code->calls_wait;
        }
        thread.frames.push_back({code->name, code->file, line});
        return true;
    }

    /// The same instruction in another call of the function counts as another place.
    static std::uint64_t mixed(std::uint64_t frame, std::uint64_t instruction) {
        const auto both = frame * 0x9e3779b97f4a7c15ULL ^ instruction;
        return both == 0 ? 1 : both;
    }

    const Code* code_at(std::uint64_t address) {
        const auto known = codes_.find(address);
        if (known != codes_.end()) return &known->second;
        if (pointer(address + type_offset) != interpreter_.code_type) return nullptr;
        const auto name = pointer(address + layout_.code_name);
        const auto file = pointer(address + layout_.code_file);
        const auto first_line = number_at<std::int32_t>(read_, address + layout_.code_first_line);
        if (!name || !file || !first_line) return nullptr;
        Code code;
        code.name = without_scope(text_at(layout_, read_, *name));
        code.file = text_at(layout_, read_, *file);
        code.first_line = std::max(*first_line, 0);
        code.lines = line_table_of(address);
        code.calls_wait = has_name(address, "wait");
        if (code.name.empty()) return nullptr;
        return &codes_.emplace(address, std::move(code)).first->second;
    }

    /// Whether the code uses an attribute or a global variable of this name.
    bool has_name(std::uint64_t code, std::string_view name) const {
        const auto names = pointer(code + names_offset);
        const auto count =
            names ? number_at<std::int64_t>(read_, *names + tuple_size_offset) : std::nullopt;
        if (!count || *count <= 0 || *count > most_names) return false;
        std::vector<std::uint64_t> texts(static_cast<std::size_t>(*count));
        if (!read_(*names + tuple_items_offset, std::as_writable_bytes(std::span{texts})))
            return false;
        const auto size = static_cast<std::int64_t>(name.size());
        return std::any_of(texts.begin(), texts.end(), [&](std::uint64_t text) {
            return number_at<std::int64_t>(read_, text + layout_.text_length) == size &&
                   text_at(layout_, read_, text) == name;
        });
    }

    std::vector<std::byte> line_table_of(std::uint64_t code) const {
        const auto table = pointer(code + layout_.code_lines);
        if (!table) return {};
        const auto size = number_at<std::int64_t>(read_, *table + layout_.bytes_size);
        if (!size || *size <= 0 || static_cast<std::uint64_t>(*size) > limits::max_line_table_bytes)
            return {};
        std::vector<std::byte> bytes(static_cast<std::size_t>(*size));
        if (!read_(*table + layout_.bytes_data, bytes)) return {};
        return bytes;
    }

    const PythonInterpreter& interpreter_;
    const PythonLayout& layout_;
    const ReadMemory& read_;
    std::map<std::uint64_t, Code> codes_;
    std::size_t frames_read_ = 0;
};

}  // namespace

int line_at(std::span<const std::byte> line_table, int first_line, std::uint64_t offset) {
    constexpr std::uint64_t code_unit_bytes = 2;
    constexpr std::uint64_t most_lines = 100'000'000;
    LineTable table(line_table);
    std::int64_t line = first_line;
    std::uint64_t end = 0;
    while (!table.is_over()) {
        const auto first = table.byte();
        // The first byte of an entry: a 1 bit, its kind, and its number of code units minus one.
        if ((first & 0x80) == 0) return 0;
        const auto kind = first >> 3 & 15;
        end += static_cast<std::uint64_t>((first & 7) + 1) * code_unit_bytes;
        constexpr int one_line_form = 10;
        constexpr int no_columns = 13;
        constexpr int long_form = 14;
        constexpr int no_line = 15;
        if (kind == long_form || kind == no_columns)
            line += table.variable_signed();
        else if (kind >= one_line_form && kind < no_columns)
            line += kind - one_line_form;
        table.skip_entry();
        if (offset >= end) continue;
        const bool is_line =
            kind != no_line && line > 0 && static_cast<std::uint64_t>(line) < most_lines;
        return is_line ? static_cast<int>(line) : 0;
    }
    return 0;
}

PythonThreads read_python_threads(const PythonInterpreter& interpreter, const ReadMemory& read) {
    const auto found = python_layout(interpreter, read);
    if (!found.is_known) return {{}, found.why_not};
    StackReader reader(interpreter, found.layout, read);
    auto addresses = reader.list_threads();
    if (addresses.empty()) return {{}, "its threads cannot be read"};
    if (addresses.size() > limits::max_python_threads) addresses.resize(limits::max_python_threads);
    PythonThreads all;
    bool has_frames = false;
    for (const auto address : addresses) {
        all.threads.push_back(reader.read_thread(address));
        has_frames |= !all.threads.back().frames.empty();
    }
    if (!has_frames) return {{}, "no frame of its threads can be read"};
    return all;
}

}  // namespace ddprun::agent::health
