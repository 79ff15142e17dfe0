// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace mnist {

/// Shows how far long work is on a line of the terminal, which is gone afterwards. Where standard
/// error is no terminal it shows nothing.
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

/// One whole line on standard output at once: several workers share it.
void say(const std::string& line);

/// "12.34"
std::string with_digits(double number, int digits);

}  // namespace mnist
