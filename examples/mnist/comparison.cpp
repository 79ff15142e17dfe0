// SPDX-License-Identifier: Apache-2.0
#include "comparison.hpp"

#include "ddprun/error.hpp"
#include "run_state.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <vector>

namespace mnist {
namespace {

using ddprun::Checkpoint;
using ddprun::Tensor;

bool is_parameter(const Tensor& tensor) {
    return tensor.name.rfind(parameter_prefix, 0) == 0;
}

std::string short_name(const Tensor& tensor) {
    return tensor.name.substr(std::string_view{parameter_prefix}.size());
}

void require_parameters(const Checkpoint& checkpoint, const char* which) {
    if (std::none_of(checkpoint.tensors.begin(), checkpoint.tensors.end(), is_parameter))
        throw ddprun::Error(
            std::string{"the "} + which + " checkpoint has no tensor '" + parameter_prefix +
            "...'");
}

template <class T>
bool is_same(const std::vector<T>& a, const std::vector<T>& b) {
    return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
double as_double(T value) {
    if constexpr (std::is_arithmetic_v<T>)
        return static_cast<double>(value);
    else
        return static_cast<float>(value);
}

/// NaN differs from a number by infinity.
template <class T>
double distance(const std::vector<T>& a, const std::vector<T>& b) {
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (std::memcmp(&a[i], &b[i], sizeof(T)) == 0) continue;
        const double here = std::abs(as_double(a[i]) - as_double(b[i]));
        largest =
            std::max(largest, std::isnan(here) ? std::numeric_limits<double>::infinity() : here);
    }
    return largest;
}

/// Applies `f` to the two lists of values. Requires: equal types and lengths.
template <class F>
auto on_values(const Tensor& a, const Tensor& b, F f) {
    return std::visit(
        [&](const auto& values) {
            return f(values, std::get<std::decay_t<decltype(values)>>(b.values));
        },
        a.values);
}

bool is_alike(const Tensor& a, const Tensor& b) {
    return a.shape == b.shape && a.values.index() == b.values.index();
}

}  // namespace

std::optional<Difference> compare_parameters(const Checkpoint& a, const Checkpoint& b) {
    require_parameters(a, "first");
    require_parameters(b, "second");

    std::optional<Difference> difference;
    const auto note = [&](const Tensor& tensor, std::string why) {
        if (!difference) difference = Difference{short_name(tensor), std::move(why), 0, {}};
    };
    for (const auto& mine : a.tensors) {
        if (!is_parameter(mine)) continue;
        const auto* other = b.find(mine.name);
        if (other == nullptr) {
            note(mine, "is missing in the second");
        } else if (!is_alike(mine, *other)) {
            note(mine, "is of another shape or type in the second");
        } else if (!on_values(mine, *other, [](auto& x, auto& y) { return is_same(x, y); })) {
            note(mine, {});
            const double largest =
                on_values(mine, *other, [](auto& x, auto& y) { return distance(x, y); });
            if (difference->largest_in.empty() || largest > difference->largest) {
                difference->largest = largest;
                difference->largest_in = short_name(mine);
            }
        }
    }
    for (const auto& other : b.tensors)
        if (is_parameter(other) && a.find(other.name) == nullptr)
            note(other, "is missing in the first");
    return difference;
}

std::string describe(const Difference& difference) {
    auto text = "parameter " + difference.parameter + " " +
                (difference.why.empty() ? "differs" : difference.why);
    if (!difference.largest_in.empty()) {
        char number[32];
        std::snprintf(number, sizeof number, "%.9g", difference.largest);
        text += "\nlargest difference " + std::string{number} + ", in " + difference.largest_in;
    }
    return text;
}

}  // namespace mnist
