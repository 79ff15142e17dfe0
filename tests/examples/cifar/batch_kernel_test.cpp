// SPDX-License-Identifier: Apache-2.0
// The CIFAR example's augmentation, run on the CPU.
#include "examples/cifar/cuda/kernels.hpp"
#include "examples/cifar/image_file.hpp"
#include "tests/support/cuda_on_cpu/kernel.hpp"
#include "worker_sdk/include/ddprun/float16.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace {

constexpr int side = 32;

/// Pictures whose red value shows the row, and whose green value the column; blue is constant.
cifar::Dataset ruled_pictures(std::size_t count) {
    cifar::Dataset data;
    for (std::size_t n = 0; n < count; ++n) {
        data.labels.push_back(static_cast<std::uint8_t>(n % 10));
        for (int channel = 0; channel < 3; ++channel)
            for (int row = 0; row < side; ++row)
                for (int column = 0; column < side; ++column)
                    data.pixels.push_back(static_cast<std::uint8_t>(
                        channel == 0   ? 8 * row
                        : channel == 1 ? 8 * column
                                       : 128));
    }
    return data;
}

struct Batch {
    std::vector<cifar::Eight> pixels;
    std::vector<unsigned char> labels;
};

Batch load(
    const cifar::Dataset& data,
    const std::vector<unsigned>& order,
    const cifar::Augmentation& augmentation) {
    const auto count = order.size();
    Batch batch{
        std::vector<cifar::Eight>(count * side * side), std::vector<unsigned char>(count, 99)};
    REQUIRE(cuda_on_cpu::launch(
        "cifar_load_batch",
        {{static_cast<unsigned>(count * side * side / 256)}, {256}},
        data.pixels.data(),
        data.labels.data(),
        order.data(),
        augmentation,
        static_cast<int>(count),
        batch.pixels.data(),
        batch.labels.data()));
    return batch;
}

double value(const Batch& batch, std::size_t picture, int row, int column, int channel) {
    ddprun::BFloat16 number;
    number.bits =
        batch.pixels[picture * side * side + static_cast<std::size_t>(row * side + column)]
            .value[channel];
    return static_cast<double>(static_cast<float>(number));
}

/// The row or column that the picture had at this place.
int ruled(const Batch& batch, std::size_t picture, int row, int column, int channel) {
    const double mean = channel == 0 ? 0.4914 : 0.4822;
    const double deviation = channel == 0 ? 0.2470 : 0.2435;
    const double byte = (value(batch, picture, row, column, channel) * deviation + mean) * 255;
    return static_cast<int>(std::lround(byte / 8));
}

int mirrored(int at) {
    return at < 0 ? -at : at < side ? at : 2 * (side - 1) - at;
}

struct Variation {
    int down = 0;
    int right = 0;
    bool is_flipped = false;
    int cut_pixels = 0;
};

bool is_cut(const Batch& batch, std::size_t picture, int row, int column) {
    return value(batch, picture, row, column, 2) == 0;
}

bool fits(const Batch& batch, std::size_t picture, const Variation& v) {
    for (int row = 0; row < side; ++row)
        for (int column = 0; column < side; ++column) {
            if (is_cut(batch, picture, row, column)) continue;
            const int from = v.is_flipped ? side - 1 - column : column;
            if (ruled(batch, picture, row, column, 0) != mirrored(row + v.down)) return false;
            if (ruled(batch, picture, row, column, 1) != mirrored(from + v.right)) return false;
        }
    return true;
}

/// The crop and flip that made this picture; fails when none of them did.
Variation variation_of(const Batch& batch, std::size_t picture) {
    Variation v;
    for (int i = 0; i < side * side; ++i)
        v.cut_pixels += is_cut(batch, picture, i / side, i % side) ? 1 : 0;
    for (v.down = -4; v.down <= 4; ++v.down)
        for (v.right = -4; v.right <= 4; ++v.right)
            for (const bool is_flipped : {false, true}) {
                v.is_flipped = is_flipped;
                if (fits(batch, picture, v)) return v;
            }
    FAIL("neither a crop nor a flip of the picture");
    return v;
}

bool same(const cifar::Eight& a, const cifar::Eight& b) {
    for (int i = 0; i < 8; ++i)
        if (a.value[i] != b.value[i]) return false;
    return true;
}

}  // namespace

TEST_CASE("a batch for evaluation is the pictures as they are, normalised, in the given order") {
    const auto data = ruled_pictures(12);
    const auto batch = load(data, {11, 3}, {1, 0, 8, 0});

    CHECK(batch.labels == std::vector<unsigned char>{1, 3});
    for (std::size_t picture = 0; picture < 2; ++picture) {
        const auto v = variation_of(batch, picture);
        CHECK(v.down == 0);
        CHECK(v.right == 0);
        CHECK_FALSE(v.is_flipped);
        CHECK(v.cut_pixels == 0);
    }
    CHECK(
        value(batch, 0, 5, 6, 2) == doctest::Approx((128 / 255.0 - 0.4465) / 0.2616).epsilon(0.01));
    for (int channel = 3; channel < 8; ++channel)
        CHECK(value(batch, 1, 31, 31, channel) == 0);
}

TEST_CASE("pictures to train on are crops of a mirrored frame, flipped or not, with a square cut") {
    constexpr unsigned count = 120;
    const auto data = ruled_pictures(count);
    std::vector<unsigned> order;
    for (unsigned i = 0; i < count; ++i)
        order.push_back(i);
    const auto batch = load(data, order, {1, 0, 8, 1});

    std::set<int> downs, rights;
    int flipped = 0;
    for (unsigned i = 0; i < count; ++i) {
        const auto v = variation_of(batch, i);
        downs.insert(v.down);
        rights.insert(v.right);
        flipped += v.is_flipped ? 1 : 0;
        CHECK(v.cut_pixels == 8 * 8);
    }
    CHECK(downs.size() == 9);
    CHECK(rights.size() == 9);
    CHECK(flipped > count / 4);
    CHECK(flipped < 3 * count / 4);

    CHECK(variation_of(load(data, {5}, {1, 0, 0, 1}), 0).cut_pixels == 0);
}

TEST_CASE(
    "how a picture is varied depends on seed, epoch and the picture, not on the rank that loads "
    "it") {
    const auto data = ruled_pictures(8);
    const auto at_first = load(data, {6, 2}, {1, 3, 8, 1});
    const auto again = load(data, {0, 1, 6}, {1, 3, 8, 1});
    const auto differs = [&](const Batch& other, std::size_t picture) {
        for (std::size_t i = 0; i < side * side; ++i)
            if (!same(at_first.pixels[i], other.pixels[picture * side * side + i])) return true;
        return false;
    };
    CHECK_FALSE(differs(again, 2));
    CHECK(differs(load(data, {6}, {1, 4, 8, 1}), 0));
    CHECK(differs(load(data, {6}, {2, 3, 8, 1}), 0));
}
