// SPDX-License-Identifier: Apache-2.0
// The GPU engine on the simulated GPU, compared with the CPU engine.
#include "examples/gpu/libraries.hpp"
#include "examples/mnist/cpu_engine.hpp"
#include "examples/mnist/digit_set.hpp"
#include "examples/mnist/engines.hpp"
#include "tests/examples/mnist_cuda/fake_gpu.hpp"

#include <doctest/doctest.h>

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

using namespace mnist;

namespace {

/// Opens the simulated GPU once.
const MakeEngine& on_gpu() {
    static const auto make = [] {
        use_fake_gpu();
        REQUIRE(::dlopen(MNIST_FAKE_FOLDER "/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr);
        return open_device(Device::cuda);
    }();
    return make;
}

const Dataset& train_digits() {
    static const auto data = paint_digits(150, Split::train, 1, {});
    return data;
}
const Dataset& test_digits() {
    static const auto data = paint_digits(40, Split::test, 1, {});
    return data;
}

/// A function of the simulated driver.
template <class Function>
Function* driver(const char* name) {
    auto* const found = reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
    REQUIRE((found != nullptr));
    return found;
}

/// Memory for each parameter on the simulated GPU, which tests can read; initially zero.
class DeviceMemory {
public:
    DeviceMemory() {
        std::size_t count = 0;
        for (const auto& shape : Mlp::parameters())
            count += shape.count();
        REQUIRE(
            driver<int(unsigned long long*, std::size_t)>("cuMemAlloc_v2")(
                &address_, count * sizeof(float)) == 0);
        auto* next = reinterpret_cast<float*>(address_);
        std::fill_n(next, count, 0.0F);
        for (const auto& shape : Mlp::parameters()) {
            numbers.push_back(next);
            next += shape.count();
        }
    }
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    Numbers numbers;

private:
    // As a Reducer's, it outlives the engine; until the end of the process, here.
    unsigned long long address_ = 0;
};

/// A single rank: there is nothing to average.
struct Alone {
    Alone(const MakeEngine& make, const EngineOptions& options)
        : engine(make(options, train_digits(), test_digits())) {
        Exchange exchange;
        exchange.parameters = take_memory(parameter_memory);
        exchange.gradients = gradients = take_memory(gradient_memory);
        exchange.commit_word = &commit_word;
        exchange.ready = [this](std::size_t parameter) { reported.push_back(parameter); };
        exchange.step = [](const auto& update) { update(); };
        exchange.replay = [this](const auto& launch) {
            ++replays;
            launch();
        };
        exchange.synchronize = [this] { wait(); };
        engine->attach(std::move(exchange));
        Mlp{engine->numbers().parameters, {}}.initialise(3);
        engine->put();
    }

    void wait() const {
        if (engine->stream() == nullptr) return;
        REQUIRE(driver<int(void*)>("cuStreamSynchronize")(engine->stream()) == 0);
    }

    Numbers take_memory(std::vector<float>& on_host) const {
        if (engine->stream() != nullptr) return DeviceMemory{}.numbers;
        return laid_out({"memory"}, on_host)[0].values;
    }

    /// Steps over the samples first, first + 1, ...
    void train(std::size_t first, std::size_t count, std::size_t batch_size, std::uint64_t steps) {
        std::vector<std::uint64_t> order;
        for (auto i = first; i < first + count; ++i)
            order.push_back((i * 11) % train_digits().size());
        engine->begin_epoch(order, steps);
        for (std::size_t next = 0; next < count; next += batch_size)
            engine->step(std::min(batch_size, count - next));
    }

    std::vector<float> parameters() const {
        engine->fetch();
        return flat(engine->numbers().parameters);
    }
    std::vector<float> moments() const {
        engine->fetch();
        std::vector<float> all;
        for (const auto& moment : engine->numbers().moments)
            for (const float one : flat(moment.values))
                all.push_back(one);
        return all;
    }

    static std::vector<float> flat(const Numbers& numbers) {
        std::vector<float> all;
        for (std::size_t p = 0; p < numbers.size(); ++p)
            all.insert(all.end(), numbers[p], numbers[p] + Mlp::parameters()[p].count());
        return all;
    }

    std::vector<float> parameter_memory, gradient_memory;
    Numbers gradients;
    std::uint32_t commit_word = 1;
    std::vector<std::size_t> reported;
    int replays = 0;
    std::unique_ptr<Engine> engine;
};

EngineOptions options(OptimizerKind optimizer, float rate) {
    EngineOptions all;
    all.optimizer = optimizer;
    all.learning_rate = rate;
    all.seed = 5;
    all.rank = 1;
    return all;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
    REQUIRE(a.size() == b.size());
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        largest = std::max(largest, static_cast<double>(std::abs(a[i] - b[i])));
    return largest;
}

const MakeEngine& on_cpu() {
    static const auto make = open_device(Device::cpu);
    return make;
}

}  // namespace

TEST_CASE("a GPU's first gradients are the CPU's, reported in the same order") {
    const auto chosen = options(OptimizerKind::sgd, 0.05F);
    Alone cpu{on_cpu(), chosen};
    Alone gpu{on_gpu(), chosen};

    cpu.train(0, 32, 32, 9);
    gpu.train(0, 32, 32, 9);
    gpu.wait();

    CHECK(largest_difference(Alone::flat(cpu.gradients), Alone::flat(gpu.gradients)) < 1e-6);
    CHECK(gpu.reported == cpu.reported);
}

TEST_CASE("a GPU's training goes where the CPU's goes, recorded steps and odd batches included") {
    for (const auto& chosen :
         {options(OptimizerKind::sgd, 0.05F), options(OptimizerKind::adam, 0.001F)}) {
        Alone cpu{on_cpu(), chosen};
        Alone gpu{on_gpu(), chosen};
        Sums cpu_sums;
        Sums gpu_sums;
        for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
            cpu.train(epoch, 150, 32, epoch * 5);  // 4 batches of 32, one of 22
            gpu.train(epoch, 150, 32, epoch * 5);
            cpu_sums = cpu.engine->take_sums();
            gpu_sums = gpu.engine->take_sums();
        }

        CAPTURE(name_of(chosen.optimizer));
        CHECK(largest_difference(cpu.parameters(), gpu.parameters()) < 1e-4);
        CHECK(largest_difference(cpu.moments(), gpu.moments()) < 1e-3);
        CHECK(gpu_sums.loss == doctest::Approx(cpu_sums.loss).epsilon(1e-4));
        CHECK(std::abs(gpu_sums.correct - cpu_sums.correct) <= 1);
        CHECK(gpu.replays == 3 * 5 - 2);  // the first with each size is performed as it comes
        CHECK(gpu.engine->count_correct(1, 3) == cpu.engine->count_correct(1, 3));
    }
}

TEST_CASE("the same steps on a GPU give the same bits, at once or in two pieces") {
    const auto chosen = options(OptimizerKind::adam, 0.001F);
    Alone whole{on_gpu(), chosen};
    Alone first_part{on_gpu(), chosen};
    Alone second_part{on_gpu(), chosen};

    whole.train(0, 128, 32, 0);
    first_part.train(0, 64, 32, 0);
    // The state that a checkpoint contains.
    first_part.engine->fetch();
    const auto& from = first_part.engine->numbers();
    const auto& to = second_part.engine->numbers();
    for (std::size_t p = 0; p < from.parameters.size(); ++p) {
        const auto count = Mlp::parameters()[p].count();
        std::copy_n(from.parameters[p], count, to.parameters[p]);
        for (std::size_t m = 0; m < from.moments.size(); ++m)
            std::copy_n(from.moments[m].values[p], count, to.moments[m].values[p]);
    }
    second_part.engine->put();
    second_part.train(64, 64, 32, 2);

    CHECK((second_part.parameters() == whole.parameters()));
    CHECK((second_part.moments() == whole.moments()));
}

TEST_CASE("gradients that were not averaged change nothing, in recorded steps neither") {
    Alone gpu{on_gpu(), options(OptimizerKind::sgd, 0.05F)};
    gpu.train(0, 96, 32, 0);
    const auto before = gpu.parameters();

    gpu.commit_word = 0;
    gpu.train(0, 96, 32, 3);

    CHECK((gpu.parameters() == before));
}

TEST_CASE(
    "larger batches than before, and a test in the middle, do not disturb what was recorded") {
    const auto chosen = options(OptimizerKind::sgd, 0.05F);
    Alone cpu{on_cpu(), chosen};
    Alone gpu{on_gpu(), chosen};
    for (auto* one : {&cpu, &gpu}) {
        one->train(0, 40, 8, 0);
        one->train(0, 120, 60, 5);
        one->engine->count_correct(0, 1);
        one->train(0, 120, 60, 7);
        one->train(0, 150, 8, 9);
    }

    CHECK(largest_difference(cpu.parameters(), gpu.parameters()) < 1e-4);
}

TEST_CASE("the GPU's memory is part of the epoch's line") {
    const Alone gpu{on_gpu(), options(OptimizerKind::sgd, 0.05F)};
    CHECK(gpu.engine->memory_use() != "");
    CHECK(Alone{on_cpu(), options(OptimizerKind::sgd, 0.05F)}.engine->memory_use() == "");
}
