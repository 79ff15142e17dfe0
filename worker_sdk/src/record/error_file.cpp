// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/record/error_file.hpp"

#include "worker_sdk/src/environment_names.hpp"

#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace ddprun::record_errors {
namespace {

constexpr int most_frames = 48;
constexpr std::size_t stack_room = 8 * 1024;

char path[PATH_MAX];
/// Static, since a small alternative signal stack has no room for the text.
ErrorFileText file_text;
char stack_text[stack_room];
void* frames[most_frames];

bool write_whole(int descriptor, const char* data, std::size_t size) {
    while (size > 0) {
        const auto written = ::write(descriptor, data, size);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        data += written;
        size -= static_cast<std::size_t>(written);
    }
    return true;
}

}  // namespace

void remember_path() {
    const char* named = ::getenv(environment::error_file);
    if (!named || std::strlen(named) >= sizeof path) named = "";
    std::snprintf(path, sizeof path, "%s", named);
}

bool write_error_file(Text message, Text stack) {
    if (path[0] == '\0') return false;
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    file_text.clear();
    write_error_file_text(file_text, message, stack, static_cast<std::uint64_t>(now.tv_sec));

    // Written in place, not through a temporary file: a process that is killed meanwhile would
    // leave a file that the launcher does not remove. The launcher ignores a truncated file.
    const int descriptor = ::open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor < 0) return false;
    const bool is_whole = write_whole(descriptor, file_text.data(), file_text.size()) &&
                          ::ftruncate(descriptor, static_cast<off_t>(file_text.size())) == 0;
    ::close(descriptor);
    return is_whole;
}

void prepare_call_stack() {
    // The first call loads the unwinder, which allocates memory.
    ::backtrace(frames, 1);
}

Text call_stack() {
    const int count = ::backtrace(frames, most_frames);
    // Only the variant that writes to a descriptor does not allocate; a pipe holds 64 KiB.
    int ends[2];
    if (count <= 0 || ::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return {};
    ::backtrace_symbols_fd(frames, count, ends[1]);
    const auto size = ::read(ends[0], stack_text, sizeof stack_text);
    ::close(ends[0]);
    ::close(ends[1]);
    return {stack_text, size > 0 ? static_cast<std::size_t>(size) : 0};
}

}  // namespace ddprun::record_errors
