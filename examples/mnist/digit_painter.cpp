// SPDX-License-Identifier: Apache-2.0
#include "digit_painter.hpp"

#include "digit_shapes.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace mnist {
namespace {

// How much pictures of one digit vary. Chosen so that a linear classifier has about the same error
// rate as on MNIST, and train_mnist's network can exceed 97 %.
constexpr double hand_tremor = 0.035;   // each point of a shape, in its height
constexpr double turn = 9;              // degrees
constexpr double slant = 0.18;          // x moves by this share of y
constexpr double smallest_height = 16;  // pixels
constexpr double largest_height = 22;
constexpr double narrowest = 0.55;  // width as a share of the height
constexpr double widest = 0.95;
constexpr double shift = 1.3;         // pixels
constexpr double thinnest_pen = 1.2;  // pixels
constexpr double thickest_pen = 3.4;
constexpr double faintest_ink = 0.6;
constexpr double stray_stroke_chance = 0.45;
constexpr double longest_stray_stroke = 6;  // pixels
constexpr double noise = 0.09;
constexpr double speck_chance = 0.004;

constexpr int steps_per_curve_piece = 6;

/// Turns, slants, stretches and moves the unit box onto the picture.
class Placement {
public:
    explicit Placement(Random& random) {
        const double height = random.uniform(smallest_height, largest_height);
        const double width = height * random.uniform(narrowest, widest);
        const double angle = random.normal(turn) * std::numbers::pi / 180;
        const double lean = random.normal(slant);
        const double cosine = std::cos(angle);
        const double sine = std::sin(angle);
        xx_ = cosine * width;
        xy_ = (cosine * lean - sine) * height;
        yx_ = sine * width;
        yy_ = (sine * lean + cosine) * height;
        const double middle = (image_side - 1) / 2.0;
        x_ = middle + random.normal(shift);
        y_ = middle + random.normal(shift);
    }

    Point operator()(Point p) const {
        const double x = p.x - 0.5;
        const double y = p.y - 0.5;
        return {xx_ * x + xy_ * y + x_, yx_ * x + yy_ * y + y_};
    }

private:
    double xx_, xy_, yx_, yy_, x_, y_;
};

/// A point of the Catmull-Rom curve between b and c.
Point between(Point a, Point b, Point c, Point d, double t) {
    const auto axis = [t](double p, double q, double r, double s) {
        return q + 0.5 * t * (r - p + t * (2 * p - 5 * q + 4 * r - s + t * (3 * (q - r) + s - p)));
    };
    return {axis(a.x, b.x, c.x, d.x), axis(a.y, b.y, c.y, d.y)};
}

Stroke smoothed(const Stroke& corners) {
    Stroke curve{corners.front()};
    const auto last = corners.size() - 1;
    for (std::size_t i = 0; i < last; ++i)
        for (int step = 1; step <= steps_per_curve_piece; ++step)
            curve.push_back(between(
                corners[i == 0 ? 0 : i - 1],
                corners[i],
                corners[i + 1],
                corners[std::min(i + 2, last)],
                static_cast<double>(step) / steps_per_curve_piece));
    return curve;
}

double distance_to_line(Point p, Point a, Point b) {
    const double dx = b.x - a.x;
    const double dy = b.y - a.y;
    const double length2 = dx * dx + dy * dy;
    const double along =
        length2 == 0 ? 0 : std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length2, 0.0, 1.0);
    const double x = p.x - a.x - along * dx;
    const double y = p.y - a.y - along * dy;
    return std::sqrt(x * x + y * y);
}

/// Brightness from 0 to 1; strokes that cross do not add up.
class Canvas {
public:
    void draw(const Stroke& curve, double pen, double ink) {
        for (std::size_t i = 1; i < curve.size(); ++i)
            draw_line(curve[i - 1], curve[i], pen, ink);
    }

    void spoil(Random& random) {
        for (auto& light : light_) {
            light += random.normal(noise);
            if (random.chance(speck_chance)) light = random.uniform();
        }
    }

    Image picture() const {
        Image image;
        std::transform(light_.begin(), light_.end(), image.begin(), [](double light) {
            return static_cast<std::uint8_t>(std::lround(std::clamp(light, 0.0, 1.0) * 255));
        });
        return image;
    }

private:
    void draw_line(Point a, Point b, double pen, double ink) {
        const double reach = pen / 2 + 0.5;  // half a pixel of soft edge
        const auto [left, right] = span(a.x, b.x, reach);
        const auto [top, bottom] = span(a.y, b.y, reach);
        for (int y = top; y <= bottom; ++y)
            for (int x = left; x <= right; ++x) {
                const Point pixel{static_cast<double>(x), static_cast<double>(y)};
                const double cover = std::min(1.0, reach - distance_to_line(pixel, a, b));
                auto& light =
                    light_[static_cast<std::size_t>(y) * image_side + static_cast<std::size_t>(x)];
                light = std::max(light, cover * ink);
            }
    }

    /// The pixels that a line from a to b may touch, clipped; empty (first > second) outside.
    static std::pair<int, int> span(double a, double b, double reach) {
        const double side = image_side - 1;
        const double first = std::ceil(std::max(std::min(a, b) - reach, 0.0));
        const double last = std::floor(std::min(std::max(a, b) + reach, side));
        return {
            static_cast<int>(std::min(first, side + 1)), static_cast<int>(std::max(last, -1.0))};
    }

    std::array<double, image_pixels> light_{};
};

void draw_stray_stroke(Canvas& canvas, Random& random) {
    const double side = image_side - 1;
    const Point from{random.uniform(0, side), random.uniform(0, side)};
    const double direction = random.uniform(0, 2 * std::numbers::pi);
    const double length = random.uniform(0, longest_stray_stroke);
    const Point to{from.x + length * std::cos(direction), from.y + length * std::sin(direction)};
    canvas.draw({from, to}, random.uniform(thinnest_pen, thickest_pen) / 2, random.uniform(0.3, 1));
}

}  // namespace

Image paint_digit(int digit, Random& random) {
    const auto shapes = shapes_of(digit);
    const auto& shape = shapes[random.below(shapes.size())];
    const Placement placed{random};
    const double pen = random.uniform(thinnest_pen, thickest_pen);
    const double ink = random.uniform(faintest_ink, 1);

    Canvas canvas;
    for (auto stroke : shape) {
        for (auto& point : stroke) {
            point.x += random.normal(hand_tremor);
            point.y += random.normal(hand_tremor);
            point = placed(point);
        }
        canvas.draw(smoothed(stroke), pen, ink);
    }
    while (random.chance(stray_stroke_chance))
        draw_stray_stroke(canvas, random);
    canvas.spoil(random);
    return canvas.picture();
}

}  // namespace mnist
