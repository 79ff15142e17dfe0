// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/plugin_abi.hpp"
#include "worker_sdk/src/groups/trouble.hpp"

#include <string.h>

#include <algorithm>
#include <exception>
#include <variant>

namespace ddprun::nccl {

inline void tell(DdprunReport* report, const groups::Trouble& trouble) {
    // A mismatch is told as its two sides, a line each.
    const auto text = trouble.kind == groups::Trouble::Kind::mismatch
                          ? trouble.one_side + "\n" + trouble.other_side
                          : trouble.text;
    report->kind = static_cast<int>(trouble.kind);
    const auto bytes = std::min(text.size(), sizeof report->text - 1);
    ::memcpy(report->text, text.data(), bytes);
    report->text[bytes] = '\0';
    report->rank_count = 0;
}

/// Runs `body`, which returns a value or a Trouble; the value, or `otherwise` and a report.
template <class Value, class Body>
Value guarded(DdprunReport* report, Value otherwise, const Body& body) {
    report->kind = 0;
    try {
        auto result = body();
        if (auto* trouble = std::get_if<groups::Trouble>(&result)) {
            tell(report, *trouble);
            return otherwise;
        }
        return static_cast<Value>(std::get<0>(result));
    } catch (const std::exception& error) {
        tell(report, {groups::Trouble::Kind::other, error.what()});
    }
    return otherwise;
}

/// Runs `call`, which returns an Outcome: the kind of what went wrong, and a report.
template <class Call>
int told(DdprunReport* report, const Call& call) {
    guarded(report, 0, [&]() -> std::variant<int, groups::Trouble> {
        if (auto trouble = call()) return *trouble;
        return 0;
    });
    return report->kind;
}

}  // namespace ddprun::nccl
