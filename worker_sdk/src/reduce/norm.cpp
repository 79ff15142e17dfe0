// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/reduce/norm.hpp"

#include <array>

namespace ddprun::reduce {

double sum_of_squares(const float* values, std::size_t count) {
    // Several partial sums, so that the additions are independent of each other.
    std::array<double, 8> sums{};
    std::size_t i = 0;
    for (; i + sums.size() <= count; i += sums.size())
        for (std::size_t k = 0; k < sums.size(); ++k) {
            const double value = values[i + k];
            sums[k] += value * value;
        }
    for (std::size_t k = 0; i < count; ++i, ++k) {
        const double value = values[i];
        sums[k] += value * value;
    }
    double sum = 0;
    for (const double one : sums)
        sum += one;
    return sum;
}

void scale(float* values, std::size_t count, float factor) {
    for (std::size_t i = 0; i < count; ++i)
        values[i] *= factor;
}

}  // namespace ddprun::reduce
