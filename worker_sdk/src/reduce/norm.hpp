// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace ddprun::reduce {

/// Gives the same bits for the same numbers, on every rank and in every run.
double sum_of_squares(const float* values, std::size_t count);

void scale(float* values, std::size_t count, float factor);

}  // namespace ddprun::reduce
