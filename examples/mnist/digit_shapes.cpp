// SPDX-License-Identifier: Apache-2.0
#include "digit_shapes.hpp"

#include <array>
#include <cstddef>
#include <sstream>
#include <string>

namespace mnist {
namespace {

/// Points are "x,y" in hundredths of the box, strokes are parted by "|".
Shape shape_from(const char* text) {
    Shape shape(1);
    std::istringstream words{text};
    for (std::string word; words >> word;) {
        if (word == "|") {
            shape.emplace_back();
            continue;
        }
        const auto comma = word.find(',');
        shape.back().push_back(
            {std::stod(word.substr(0, comma)) / 100, std::stod(word.substr(comma + 1)) / 100});
    }
    return shape;
}

/// The ways of writing 0, 1, ... 9.
const std::array<std::vector<const char*>, 10> texts{{
    // 0: a ring; a narrow one begun at the right
    {"50,0 20,15 10,50 20,85 50,100 80,85 90,50 80,15 50,0",
     "70,8 45,0 22,30 20,65 40,100 70,85 80,45 68,10 50,5"},
    // 1: a bar; with a nose; with nose and foot
    {"50,0 50,50 50,100",
     "30,22 45,12 58,0 | 58,0 56,50 55,100",
     "30,20 55,0 | 55,0 55,100 | 30,100 80,100"},
    // 2: with a straight foot; with a loop in the corner
    {"12,25 30,4 65,2 82,25 68,52 40,76 10,100 | 10,100 50,98 92,100",
     "15,20 40,0 75,10 75,40 50,70 20,95 12,80 30,75 60,95 92,92"},
    // 3: two bows; a flat top
    {"15,10 50,0 80,18 70,40 38,48 | 38,48 75,55 88,76 60,100 12,90",
     "15,2 80,0 | 80,0 42,40 | 42,40 80,52 86,80 50,100 12,88"},
    // 4: open; closed at the top
    {"25,5 20,30 14,55 | 14,55 50,56 90,52 | 72,15 70,60 64,100",
     "66,0 38,32 8,66 | 8,66 92,66 | 66,0 66,100"},
    // 5: in angles; in one curve
    {"85,2 25,0 | 25,0 18,42 | 18,42 50,36 85,55 82,85 45,100 10,90",
     "88,0 45,6 25,25 35,45 70,55 82,80 50,100 10,92"},
    // 6: a wide belly; a straight back
    {"76,2 40,20 15,55 18,85 50,100 82,85 80,60 50,50 20,68",
     "55,0 32,35 20,75 40,100 72,90 72,65 45,58 24,78"},
    // 7: plain; with a bar; with a nose
    {"10,4 50,0 90,2 | 90,2 60,45 40,100",
     "10,2 90,2 | 90,2 62,45 42,100 | 32,52 80,48",
     "12,20 14,4 | 14,4 88,4 | 88,4 66,40 55,100"},
    // 8: in one line; two rings
    {"78,12 50,0 22,16 40,42 75,62 80,88 50,100 20,88 25,62 62,40 78,12",
     "50,46 22,30 28,6 50,0 72,6 78,30 50,46 | 50,46 16,70 22,94 50,100 78,94 84,70 50,46"},
    // 9: a bent tail; a straight one
    {"80,25 55,48 22,40 18,14 50,0 80,14 82,40 74,72 50,100",
     "76,10 45,0 20,20 32,46 62,42 76,12 | 76,12 72,55 70,100"},
}};

std::array<std::vector<Shape>, 10> read_all() {
    std::array<std::vector<Shape>, 10> all;
    for (std::size_t digit = 0; digit < texts.size(); ++digit)
        for (const char* text : texts[digit])
            all[digit].push_back(shape_from(text));
    return all;
}

}  // namespace

std::span<const Shape> shapes_of(int digit) {
    static const auto shapes = read_all();
    return shapes.at(static_cast<std::size_t>(digit));
}

}  // namespace mnist
