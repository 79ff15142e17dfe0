// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/record/error_text.hpp"

namespace ddprun::record_errors {

namespace {

// Six times this length, when every character is escaped, fits into the file's text.
constexpr std::size_t longest_message = 4096;
constexpr std::size_t longest_stack = 6000;

}  // namespace

void write_error_file_text(
    ErrorFileText& out, Text message, Text stack, std::uint64_t unix_seconds) {
    out.add(R"({"message": {"message": ")");
    out.add_quoted(message.data, message.size, longest_message);
    out.add(R"(", "extraInfo": {"py_callstack": ")");
    out.add_quoted(stack.data, stack.size, longest_stack);
    out.add(R"(", "timestamp": ")");
    out.add_number(unix_seconds);
    out.add("\"}}}\n");
}

}  // namespace ddprun::record_errors
