// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace mnist {

/// One pointer for each of Mlp::parameters(), in their order.
using Numbers = std::vector<float*>;

/// One kind of optimizer state for each parameter, such as "momentum".
struct Moment {
    std::string name;
    Numbers values;
};

/// All values that training changes.
struct ModelNumbers {
    Numbers parameters;
    std::vector<Moment> moments;
};

}  // namespace mnist
