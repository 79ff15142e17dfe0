// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/group_error.hpp"
#include "worker_sdk/src/groups/plugin_abi.hpp"

#include <string.h>

#include <algorithm>
#include <exception>
#include <variant>

namespace ddprun::nccl {

inline void tell(DdprunReport* report, const groups::GroupError& error) {
    // A mismatch is reported as its two sides, a line each.
    const auto text = error.kind == groups::GroupError::Kind::mismatch
                          ? error.one_side + "\n" + error.other_side
                          : error.text;
    report->kind = static_cast<int>(error.kind);
    const auto bytes = std::min(text.size(), sizeof report->text - 1);
    ::memcpy(report->text, text.data(), bytes);
    report->text[bytes] = '\0';
    report->rank_count = 0;
}

/// Runs `body`, which returns a value or a GroupError; the value, or `otherwise` and a report.
template <class Value, class Body>
Value guarded(DdprunReport* report, Value otherwise, const Body& body) {
    report->kind = 0;
    try {
        auto result = body();
        if (auto* error = std::get_if<groups::GroupError>(&result)) {
            tell(report, *error);
            return otherwise;
        }
        return static_cast<Value>(std::get<0>(result));
    } catch (const std::exception& thrown) {
        tell(report, {groups::GroupError::Kind::other, thrown.what()});
    }
    return otherwise;
}

/// Runs `call`, which returns an Outcome: the kind of the error, and a report.
template <class Call>
int told(DdprunReport* report, const Call& call) {
    guarded(report, 0, [&]() -> std::variant<int, groups::GroupError> {
        if (auto error = call()) return *error;
        return 0;
    });
    return report->kind;
}

}  // namespace ddprun::nccl
