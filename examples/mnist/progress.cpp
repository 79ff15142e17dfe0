// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace mnist {
namespace {

// Shorter work needs no line.
constexpr std::chrono::milliseconds first_after{1000};
constexpr std::chrono::milliseconds then_every{200};
constexpr const char* erase_line = "\r\x1b[K";

}  // namespace

Progress::Progress(std::string what, std::size_t total)
    : what_(std::move(what)),
      total_(total),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      show_at_(Clock::now() + first_after) {}

Progress::~Progress() {
    if (is_shown_) std::fputs(erase_line, stderr);
}

void Progress::update(std::size_t done) {
    if (!is_terminal_) return;
    const auto now = Clock::now();
    if (now < show_at_) return;
    show_at_ = now + then_every;
    is_shown_ = true;
    std::fprintf(stderr, "%s%s %zu of %zu", erase_line, what_.c_str(), done, total_);
    std::fflush(stderr);
}

void say(const std::string& line) {
    const auto whole = line + "\n";
    std::fwrite(whole.data(), 1, whole.size(), stdout);
    std::fflush(stdout);
}

std::string with_digits(double number, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, number);
    return text;
}

}  // namespace mnist
