// SPDX-License-Identifier: Apache-2.0
#include "picture_painter.hpp"

#include "mnist/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace cifar {
namespace {

using mnist::Random;
using Colour = std::array<double, 3>;

constexpr double side = image_side;
constexpr int samples_across = 2;  // of a pixel, for smooth edges
constexpr double least_contrast = 90;

/// The position of a shape. In its own coordinates the shape is not rotated and has size 1.
struct Pose {
    double x, y, size;
    double cosine, sine;
};

/// Whether the point, in the shape's coordinates, is on the shape.
bool is_on(unsigned kind, double x, double y) {
    const double radius = std::hypot(x, y);
    const double angle = std::atan2(y, x) + std::numbers::pi;
    const auto band = [](double along) { return static_cast<int>(std::floor(along)) % 2 == 0; };
    switch (kind) {
        case 0: return radius < 1;
        case 1: return radius < 1.1 && radius > 0.65;
        case 2: return std::max(std::abs(x), std::abs(y)) < 0.85;
        case 3: return y > -0.6 && y + 1.8 * std::abs(x) < 1.1;
        case 4: return std::min(std::abs(x), std::abs(y)) < 0.3 && radius < 1.2;
        case 5: return radius < 0.7 + 0.5 * std::cos(5 * angle);
        case 6: return std::hypot(std::abs(x) - 0.7, y) < 0.5;
        case 7: return band(x * 2.5 + 100);
        case 8: return band(x * 1.8 + 100) != band(y * 1.8 + 100);
        default: return band(angle * 8 / (2 * std::numbers::pi));
    }
}

double coverage(unsigned kind, const Pose& pose, std::size_t row, std::size_t column) {
    int on = 0;
    for (int i = 0; i < samples_across * samples_across; ++i) {
        const double dx =
            static_cast<double>(column) + (0.5 + i % samples_across) / samples_across - pose.x;
        const double dy = static_cast<double>(row) +
                          (0.5 + static_cast<double>(i / samples_across)) / samples_across - pose.y;
        const double x = (dx * pose.cosine + dy * pose.sine) / pose.size;
        const double y = (dy * pose.cosine - dx * pose.sine) / pose.size;
        if (is_on(kind, x, y)) ++on;
    }
    return on / static_cast<double>(samples_across * samples_across);
}

Colour any_colour(Random& random) {
    return {random.uniform(20, 235), random.uniform(20, 235), random.uniform(20, 235)};
}

/// A colour that differs enough in some channel for the shape to be visible.
Colour other_colour(Random& random, const Colour& from) {
    for (;;) {
        const auto colour = any_colour(random);
        for (std::size_t c = 0; c < 3; ++c)
            if (std::abs(colour[c] - from[c]) > least_contrast) return colour;
    }
}

void paint(std::uint8_t* image, unsigned kind, Random& random) {
    const double turn = random.uniform(-0.6, 0.6);
    const Pose pose{
        random.uniform(0.35, 0.65) * side,
        random.uniform(0.35, 0.65) * side,
        random.uniform(0.2, 0.34) * side,
        std::cos(turn),
        std::sin(turn)};
    const auto ground = any_colour(random);
    const auto ink = other_colour(random, ground);
    const double slope_x = random.uniform(-1, 1);
    const double slope_y = random.uniform(-1, 1);
    for (std::size_t row = 0; row < image_side; ++row)
        for (std::size_t column = 0; column < image_side; ++column) {
            const double share = coverage(kind, pose, row, column);
            const double shade = slope_x * (static_cast<double>(column) - side / 2) +
                                 slope_y * (static_cast<double>(row) - side / 2);
            for (std::size_t c = 0; c < 3; ++c) {
                const double value =
                    ground[c] + share * (ink[c] - ground[c]) + shade + random.normal(12);
                image[c * plane_pixels + row * image_side + column] =
                    static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
            }
        }
}

}  // namespace

Dataset paint_pictures(std::size_t count, Split split, std::uint64_t seed) {
    Dataset data{std::vector<std::uint8_t>(count * image_bytes), std::vector<std::uint8_t>(count)};
    for (std::size_t i = 0; i < count; ++i) {
        Random random{mnist::seed_of({seed, split == Split::train ? 1U : 2U, i})};
        const auto kind = static_cast<unsigned>(random.below(class_count));
        data.labels[i] = static_cast<std::uint8_t>(kind);
        paint(data.pixels.data() + i * image_bytes, kind, random);
    }
    return data;
}

}  // namespace cifar
