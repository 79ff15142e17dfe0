// SPDX-License-Identifier: Apache-2.0
#include "cpu_engine.hpp"

#include <utility>

namespace mnist {

CpuEngine::CpuEngine(const EngineOptions& options, const Dataset& train, const Dataset& test)
    : options_(options),
      train_(train),
      test_(test),
      optimizer_(options.optimizer, options.learning_rate) {}

void CpuEngine::attach(Exchange exchange) {
    exchange_ = std::move(exchange);
    model_.emplace(exchange_.parameters, exchange_.gradients);
    numbers_ = {exchange_.parameters, optimizer_.moments()};
}

void CpuEngine::begin_epoch(const std::vector<std::uint64_t>& order, std::uint64_t steps) {
    order_ = order;
    next_ = 0;
    steps_ = steps;
}

void CpuEngine::step(std::size_t batch_size) {
    const auto result = model_->train(
        train_,
        &order_[next_],
        batch_size,
        {options_.seed, steps_, options_.rank},
        exchange_.ready);
    exchange_.step([&] { optimizer_.step(exchange_.parameters, exchange_.gradients, steps_ + 1); });
    sums_.loss += result.loss;
    sums_.correct += static_cast<double>(result.correct);
    next_ += batch_size;
    ++steps_;
}

Sums CpuEngine::take_sums() {
    return std::exchange(sums_, {});
}

std::int64_t CpuEngine::count_correct(std::size_t first, std::size_t stride) {
    return model_->count_correct(test_, first, stride);
}

}  // namespace mnist
