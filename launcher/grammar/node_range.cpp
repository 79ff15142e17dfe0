// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/node_range.hpp"

#include "launcher/grammar/number.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {
namespace {

Failure bad_range(std::string_view text, std::string_view why) {
    return {
        system_code(EINVAL),
        "'" + std::string{text} + "': " + std::string{why} +
            "accepted are N, MIN:MAX and MIN:MAX+SPARES with 1 <= MIN <= MAX <= " +
            std::to_string(limits::max_nodes_per_job)};
}

bool has_multiple(const control::NodeRange& range, int unit) {
    return range.max / unit * unit >= range.min;
}

std::string possible_units(const control::NodeRange& range) {
    constexpr std::size_t most_named = 12;
    std::vector<int> units;
    for (int unit = 1; unit <= range.max; ++unit)
        if (has_multiple(range, unit)) units.push_back(unit);
    return short_list(units, {most_named}, [](int unit) { return std::to_string(unit); });
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

Result<control::NodeRange> with_unit(
    const control::NodeRange& range, const std::string& range_origin, std::string_view text) {
    const auto wrong = [&](const std::string& why) {
        return Failure{system_code(EINVAL), "'" + std::string{text} + "': " + why};
    };
    const auto given = parse_int(text);
    if (!given || *given < 1) return wrong("accepted is a whole number from 1 up");
    const int unit = *given;
    if (unit > range.max || !has_multiple(range, unit))
        return wrong(
            "no multiple of it is in " + describe(range) + " (" + range_origin +
            "); accepted there are " + possible_units(range));
    if (unit == 1) return range;
    const int max = range.max / unit * unit;
    const int min = (range.min + unit - 1) / unit * unit;
    return control::NodeRange{min, max, range.spares + range.max - max, unit};
}

}  // namespace ddprun::launcher
