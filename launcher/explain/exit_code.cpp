// SPDX-License-Identifier: Apache-2.0
#include "launcher/explain/exit_code.hpp"

#include "launcher/grammar/number.hpp"
#include "launcher/resolve/report_options.hpp"
#include "rendezvous/base/exit_codes.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace ddprun::launcher {

int exit_code_before_start(const Failure& failure, bool is_as_torchrun) {
    struct Row {
        int number;
        int exit_code;
    };
    constexpr Row rows[] = {
        {EINVAL, exit_codes::usage},
        {ENOENT, exit_codes::not_found},
        {EACCES, exit_codes::not_executable},
        {EISDIR, exit_codes::not_executable}};
    for (const auto& row : rows)
        if (failure.code == system_code(row.number))
            return is_as_torchrun ? exit_codes::as_torchrun(row.exit_code) : row.exit_code;
    return exit_codes::internal_error;
}

bool is_exit_code_torchruns(const Options& options) {
    const auto is_wanted = is_torchrun_wanted(options);
    if (!is_wanted || !*is_wanted || options.command.empty()) return false;
    using Check = bool (*)(const std::string& text);
    constexpr Check is_whole = [](const std::string& text) { return parse_int(text).has_value(); };
    constexpr Check is_number = [](const std::string& text) {
        return parse_int(text) || parse_duration(text);
    };
    constexpr Check is_start_method = [](const std::string& text) {
        constexpr std::array<std::string_view, 3> known{"spawn", "fork", "forkserver"};
        return std::find(known.begin(), known.end(), text) != known.end();
    };
    constexpr Check is_binding = [](const std::string& text) {
        constexpr std::array<std::string_view, 4> known{
            "node", "socket", "exclusive", "core-complex"};
        return std::find(known.begin(), known.end(), text) != known.end();
    };
    constexpr std::pair<std::string_view, Check> typed[] = {
        {"max-restarts", is_whole},
        {"node-rank", is_whole},
        {"master-port", is_whole},
        {"shutdown-timeout", is_whole},
        {"monitor-interval", is_number},
        {"exit-barrier-timeout", is_number},
        {"start-method", is_start_method},
        {"numa-binding", is_binding}};
    return std::all_of(std::begin(typed), std::end(typed), [&](const auto& row) {
        const auto given = options.find(row.first);
        return !given || row.second(given->text);
    });
}

}  // namespace ddprun::launcher
