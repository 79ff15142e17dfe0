// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddprun::record_errors {

/// A text in a fixed buffer, cut when the buffer is full. Allocates nothing and is
/// async-signal-safe.
template <std::size_t room>
class FixedText {
public:
    void add(char c) {
        if (size_ < room) text_[size_++] = c;
    }
    void add(const char* text) {
        while (*text != '\0')
            add(*text++);
    }
    void add_number(std::uint64_t number) {
        char digits[20];
        int count = 0;
        do {
            digits[count++] = static_cast<char>('0' + number % 10);
            number /= 10;
        } while (number > 0);
        while (count > 0)
            add(digits[--count]);
    }
    /// Appends the text as the content of a JSON string; non-ASCII bytes are copied unchanged.
    void add_quoted(const char* text, std::size_t size, std::size_t most) {
        constexpr const char* hex = "0123456789abcdef";
        if (size > most) size = most;
        for (std::size_t i = 0; i < size; ++i) {
            const auto c = static_cast<unsigned char>(text[i]);
            if (c == '"' || c == '\\') {
                add('\\');
                add(text[i]);
            } else if (c == '\n') {
                add("\\n");
            } else if (c < ' ') {
                add("\\u00");
                add(hex[c >> 4]);
                add(hex[c & 15]);
            } else {
                add(text[i]);
            }
        }
    }

    void clear() { size_ = 0; }
    const char* data() const { return text_; }
    std::size_t size() const { return size_; }

private:
    char text_[room];
    std::size_t size_ = 0;
};

/// The error file of PyTorch's `@record`: {"message": {"message": "...", "extraInfo":
/// {"py_callstack": "...", "timestamp": "..."}}}. The buffer is large enough for every text: texts
/// are cut, the file never is.
using ErrorFileText = FixedText<64 * 1024>;

struct Text {
    const char* data = "";
    std::size_t size = 0;
};

// Six times this length, when every character is escaped, fits into the file's text.
inline constexpr std::size_t longest_message = 4096;
inline constexpr std::size_t longest_stack = 6000;

inline void write_error_file_text(
    ErrorFileText& out, Text message, Text stack, std::uint64_t unix_seconds) {
    out.add(R"({"message": {"message": ")");
    out.add_quoted(message.data, message.size, longest_message);
    out.add(R"(", "extraInfo": {"py_callstack": ")");
    out.add_quoted(stack.data, stack.size, longest_stack);
    out.add(R"(", "timestamp": ")");
    out.add_number(unix_seconds);
    out.add("\"}}}\n");
}

/// Reads the path of the error file. Later changes of the environment have no effect.
void remember_path();

/// Writes the file, replacing its content. Returns false when there is no path or it cannot be
/// written. For signal handlers too.
bool write_error_file(Text message, Text stack);

/// Writes the caller's call stack, a line per frame. For signal handlers, provided that
/// `prepare_call_stack` was called earlier outside of one.
void prepare_call_stack();
Text call_stack();

}  // namespace ddprun::record_errors
