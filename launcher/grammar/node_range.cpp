// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/node_range.hpp"

#include "launcher/grammar/number.hpp"
#include "rendezvous/base/limits.hpp"

#include <optional>
#include <string>

namespace ddprun::launcher {
namespace {

Failure bad_range(std::string_view text, std::string_view why) {
    return {
        system_code(EINVAL),
        "'" + std::string{text} + "': " + std::string{why} +
            "accepted are N, MIN:MAX and MIN:MAX+SPARES with 1 <= MIN <= MAX <= " +
            std::to_string(limits::max_nodes_per_job)};
}

}  // namespace

Result<control::NodeRange> parse_node_range(std::string_view text) {
    auto rest = text;
    std::optional<int> spares = 0;
    if (const auto plus = rest.find('+'); plus != std::string_view::npos) {
        spares = parse_int(rest.substr(plus + 1));
        rest = rest.substr(0, plus);
    }
    const auto colon = rest.find(':');
    const auto min = parse_int(rest.substr(0, colon));
    const auto max = colon == std::string_view::npos ? min : parse_int(rest.substr(colon + 1));

    if (!min || !max || !spares) return bad_range(text, "");
    if (*min < 1 || *spares < 0) return bad_range(text, "");
    if (*min > *max) return bad_range(text, "MIN is larger than MAX; ");
    if (*max > limits::max_nodes_per_job || *spares > limits::max_nodes_per_job - *max)
        return bad_range(text, "too many nodes; ");
    return control::NodeRange{*min, *max, *spares};
}

}  // namespace ddprun::launcher
