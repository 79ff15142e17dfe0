// SPDX-License-Identifier: Apache-2.0
#include "examples/mnist/digit_painter.hpp"
#include "examples/mnist/digit_set.hpp"
#include "examples/mnist/random.hpp"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <algorithm>
#include <numeric>
#include <vector>

using namespace mnist;

namespace {

/// The best that a linear model can do: softmax regression, trained until it no longer improves.
class SoftmaxRegression {
public:
    void train(const Dataset& data, int epochs) {
        Eigen::MatrixXf velocity = Eigen::MatrixXf::Zero(weights_.rows(), weights_.cols());
        std::vector<std::size_t> order(data.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        Random random{5};
        for (int epoch = 0; epoch < epochs; ++epoch) {
            for (auto i = order.size(); i > 1; --i)
                std::swap(order[i - 1], order[random.below(i)]);
            const float rate = 0.02F * (1 - static_cast<float>(epoch) / static_cast<float>(epochs));
            for (std::size_t first = 0; first + batch <= order.size(); first += batch) {
                const auto scores = gradient_of_scores(data, &order[first]);
                velocity = 0.9F * velocity + scores * input_.transpose() / float{batch};
                weights_ -= rate * velocity;
            }
        }
    }

    double accuracy(const Dataset& data) {
        std::size_t correct = 0;
        for (std::size_t i = 0; i < data.size(); ++i) {
            load(data, i, 0);
            Eigen::Index best = 0;
            (weights_ * input_.col(0)).maxCoeff(&best);
            if (best == data.labels[i]) ++correct;
        }
        return static_cast<double>(correct) / static_cast<double>(data.size());
    }

private:
    static constexpr int batch = 100;

    void load(const Dataset& data, std::size_t index, Eigen::Index column) {
        for (std::size_t i = 0; i < image_pixels; ++i)
            input_(static_cast<Eigen::Index>(i), column) =
                (static_cast<float>(data.image(index)[i]) / 255 - 0.13F) / 0.31F;
        input_(image_pixels, column) = 1;  // for the bias
    }

    Eigen::MatrixXf gradient_of_scores(const Dataset& data, const std::size_t* indices) {
        for (Eigen::Index column = 0; column < batch; ++column)
            load(data, indices[column], column);
        Eigen::MatrixXf scores = weights_ * input_;
        for (Eigen::Index column = 0; column < batch; ++column) {
            auto one = scores.col(column);
            one = (one.array() - one.maxCoeff()).exp();
            one /= one.sum();
            one[data.labels[indices[column]]] -= 1;
        }
        return scores;
    }

    Eigen::MatrixXf weights_ = Eigen::MatrixXf::Zero(10, image_pixels + 1);
    Eigen::MatrixXf input_{static_cast<Eigen::Index>(image_pixels + 1), batch};
};

}  // namespace

TEST_CASE("digits depend on seed, split and place alone") {
    const auto few = paint_digits(300, Split::train, 7, {});
    const auto more = paint_digits(700, Split::train, 7, {});

    CHECK(std::equal(few.pixels.begin(), few.pixels.end(), more.pixels.begin()));
    CHECK(std::equal(few.labels.begin(), few.labels.end(), more.labels.begin()));
    CHECK(few.pixels != paint_digits(300, Split::test, 7, {}).pixels);
    CHECK(few.pixels != paint_digits(300, Split::train, 8, {}).pixels);
}

TEST_CASE("every digit is painted about equally often, and no picture twice") {
    const auto data = paint_digits(5000, Split::train, 1, {});

    std::vector<int> seen(10);
    for (const auto label : data.labels)
        ++seen.at(label);
    for (const auto count : seen) {
        CHECK(count > 400);
        CHECK(count < 600);
    }
    std::vector<std::vector<std::uint8_t>> pictures;
    for (std::size_t i = 0; i < data.size(); ++i)
        pictures.emplace_back(data.image(i), data.image(i) + image_pixels);
    std::sort(pictures.begin(), pictures.end());
    CHECK(std::adjacent_find(pictures.begin(), pictures.end()) == pictures.end());
}

TEST_CASE("the digits are too difficult for a linear model: softmax regression stays below 95 %") {
    const auto train = paint_digits(20'000, Split::train, 1, {});
    const auto test = paint_digits(5000, Split::test, 1, {});
    SoftmaxRegression model;

    model.train(train, 15);

    // With fewer samples than the full set, memorizing increases its accuracy on them; even that
    // must stay below the bound. More than 80 % shows that it was trained at all.
    CHECK(model.accuracy(train) < 0.95);
    CHECK(model.accuracy(test) < 0.95);
    CHECK(model.accuracy(test) > 0.80);
}
