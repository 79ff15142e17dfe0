// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace mnist {

/// One pointer for each of Mlp::parameters(), in their order.
using Numbers = std::vector<float*>;

/// What an optimizer keeps for each parameter: "momentum".
struct Moment {
    std::string name;
    Numbers values;
};

/// All that training changes.
struct ModelNumbers {
    Numbers parameters;
    std::vector<Moment> moments;
};

}  // namespace mnist
