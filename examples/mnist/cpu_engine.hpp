// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine.hpp"
#include "mlp.hpp"

#include <optional>

namespace mnist {

/// The engine on one thread of the CPU: the same input gives the same bits.
class CpuEngine : public Engine {
public:
    /// The data must outlive the engine.
    CpuEngine(const EngineOptions& options, const Dataset& train, const Dataset& test);

    void* stream() const override { return nullptr; }
    void attach(Exchange exchange) override;
    const ModelNumbers& numbers() const override { return numbers_; }
    void fetch() override {}
    void put() override {}
    void begin_epoch(const std::vector<std::uint64_t>& order, std::uint64_t steps) override;
    void step(std::size_t batch_size) override;
    Sums take_sums() override;
    std::int64_t count_correct(std::size_t first, std::size_t stride) override;
    std::string memory_use() const override { return {}; }

private:
    EngineOptions options_;
    const Dataset& train_;
    const Dataset& test_;
    Exchange exchange_;
    std::optional<Mlp> model_;
    Optimizer optimizer_;
    ModelNumbers numbers_;
    std::vector<std::uint64_t> order_;
    std::size_t next_ = 0;
    std::uint64_t steps_ = 0;
    Sums sums_;
};

}  // namespace mnist
