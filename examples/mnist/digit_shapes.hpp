// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace mnist {

struct Point {
    double x = 0;
    double y = 0;
};

/// One movement of the pen: a smooth curve through these points. Corners are where a stroke ends
/// and the next begins.
using Stroke = std::vector<Point>;

/// One way of writing a digit, in a box from (0, 0), top left, to (1, 1).
using Shape = std::vector<Stroke>;

/// The ways of writing `digit`, 0 to 9; at least one.
std::span<const Shape> shapes_of(int digit);

}  // namespace mnist
