// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/wall_time.hpp"

#include <array>
#include <cstdio>
#include <ctime>

namespace ddprun {
namespace {

std::string formatted(const char* format, const tm& parts, long nanoseconds) {
    std::array<char, 64> text{};
    const auto size = std::strftime(text.data(), text.size(), format, &parts);
    std::snprintf(text.data() + size, text.size() - size, ".%03ld", nanoseconds / 1'000'000);
    return text.data();
}

timespec this_moment() {
    timespec moment{};
    clock_gettime(CLOCK_REALTIME, &moment);
    return moment;
}

}  // namespace

std::string time_of_day() {
    const auto moment = this_moment();
    tm parts{};
    localtime_r(&moment.tv_sec, &parts);
    return formatted("%H:%M:%S", parts, moment.tv_nsec);
}

std::string utc_time() {
    const auto moment = this_moment();
    tm parts{};
    gmtime_r(&moment.tv_sec, &parts);
    return formatted("%Y-%m-%dT%H:%M:%S", parts, moment.tv_nsec) + 'Z';
}

std::string http_date() {
    const auto moment = this_moment();
    tm parts{};
    gmtime_r(&moment.tv_sec, &parts);
    std::array<char, 64> text{};
    // No program here sets a locale: the names are English.
    std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    return text.data();
}

std::int64_t unix_milliseconds() {
    const auto moment = this_moment();
    return std::int64_t{moment.tv_sec} * 1000 + moment.tv_nsec / 1'000'000;
}

}  // namespace ddprun
