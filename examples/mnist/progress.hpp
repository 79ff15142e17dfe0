// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace mnist {

/// Shows the progress of long work on one line of the terminal, which is erased afterwards. Shows
/// nothing when standard error is not a terminal.
class Progress {
public:
    Progress(std::string what, std::size_t total);
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress();

    void update(std::size_t done);

private:
    using Clock = std::chrono::steady_clock;

    std::string what_;
    std::size_t total_;
    bool is_terminal_;
    Clock::time_point show_at_;
    bool is_shown_ = false;
};

/// Writes one whole line to standard output at once, since several workers share it.
void say(const std::string& line);

/// "12.34"
std::string with_digits(double number, int digits);

}  // namespace mnist
