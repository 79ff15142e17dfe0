// SPDX-License-Identifier: Apache-2.0
// The CIFAR example's CUDA part as its program uses it, over a GPU and a cuDNN that are not there.
#include "examples/cifar/cuda/kernels.hpp"
#include "examples/cifar/gpu_network.hpp"
#include "examples/cifar/picture_painter.hpp"
#include "tests/examples/cifar/reference_net.hpp"
#include "tests/support/cuda_on_cpu/kernel.hpp"
#include "worker_sdk/include/ddprun/float16.hpp"

#include <doctest/doctest.h>

#include <dlfcn.h>
#include <stdlib.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

using cifar::GpuNetwork;
using cifar::Split;
using reference::Numbers;

namespace {

constexpr std::size_t width = 8;

void* open(const std::string& path, int flags) {
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | flags);
    REQUIRE_MESSAGE(library != nullptr, ::dlerror());
    return library;
}

struct FakeGpu {
    FakeGpu() {
        ::setenv("FAKE_GPU_KERNELS", DDPRUN_CIFAR_KERNELS, 1);
        void* const driver = open(DDPRUN_FAKE_GPU "/libcuda.so.1", RTLD_GLOBAL);
        open(DDPRUN_FAKE_GPU "/libcudnn.so.9", RTLD_GLOBAL);
        void* const part = open(DDPRUN_BIN_DIR "/libcifar_cuda.so", RTLD_LOCAL);
        make = reinterpret_cast<cifar::MakeGpuNetwork>(::dlsym(part, cifar::make_gpu_network_name));
        wait = reinterpret_cast<int (*)(void*)>(::dlsym(driver, "cuStreamSynchronize"));
        allocate = reinterpret_cast<int (*)(unsigned long long*, std::size_t)>(
            ::dlsym(driver, "cuMemAlloc_v2"));
        free = reinterpret_cast<int (*)(unsigned long long)>(::dlsym(driver, "cuMemFree_v2"));
        REQUIRE(bool{make && wait && allocate && free});
    }

    cifar::MakeGpuNetwork make;
    int (*wait)(void* stream);
    int (*allocate)(unsigned long long* address, std::size_t bytes);
    int (*free)(unsigned long long address);
};

const FakeGpu& fake_gpu() {
    static const FakeGpu only;
    return only;
}

/// Memory of the fake GPU, which the host can look into once the stream was waited for. Requires: a
/// network in this thread.
template <class T>
class DeviceArray {
public:
    explicit DeviceArray(const std::vector<T>& values) : size_(values.size()) {
        REQUIRE(fake_gpu().allocate(&address_, size_ * sizeof(T)) == 0);
        std::copy(values.begin(), values.end(), data());
    }
    DeviceArray(DeviceArray&& other) noexcept
        : address_(std::exchange(other.address_, 0)),
          size_(other.size_) {}
    DeviceArray& operator=(DeviceArray&&) = delete;
    ~DeviceArray() {
        if (address_ != 0) fake_gpu().free(address_);
    }

    T* data() const { return reinterpret_cast<T*>(address_); }
    std::vector<T> values() const { return {data(), data() + size_}; }

private:
    unsigned long long address_ = 0;
    std::size_t size_;
};

std::vector<std::uint64_t> first_numbers(std::size_t count) {
    std::vector<std::uint64_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    return order;
}

/// A network with parameters and gradients of its own.
struct Trainee {
    explicit Trainee(const GpuNetwork::Options& options)
        : net(cifar::make_architecture(options.width)),
          gpu(fake_gpu().make(options)) {
        std::vector<float*> values, gradient_views;
        for (std::size_t p = 0; p < net.parameters.size(); ++p) {
            const auto beginning = cifar::initial_values(net, p, 1);
            parameters.emplace_back(beginning);
            gradients.emplace_back(std::vector<float>(beginning.size(), std::nanf("")));
            values.push_back(parameters[p].data());
            gradient_views.push_back(gradients[p].data());
        }
        gpu->place(values, gradient_views);
        gpu->refresh();
    }

    std::vector<Numbers> exact_parameters() const {
        std::vector<Numbers> all;
        for (const auto& parameter : parameters) {
            const auto values = parameter.values();
            all.emplace_back(values.begin(), values.end());
        }
        return all;
    }

    cifar::Architecture net;
    std::unique_ptr<GpuNetwork> gpu;
    std::vector<DeviceArray<float>> parameters;
    std::vector<DeviceArray<float>> gradients;
};

GpuNetwork::Options options_of(std::size_t batch_size) {
    GpuNetwork::Options options;
    options.width = width;
    options.batch_size = batch_size;
    return options;
}

double length_of(const Numbers& numbers) {
    return std::sqrt(std::inner_product(numbers.begin(), numbers.end(), numbers.begin(), 0.0));
}

template <class A, class B>
double apart(const A& a, const B& b) {
    REQUIRE(a.size() == b.size());
    Numbers difference, size;
    for (std::size_t i = 0; i < b.size(); ++i) {
        difference.push_back(static_cast<double>(a[i]) - static_cast<double>(b[i]));
        size.push_back(static_cast<double>(b[i]));
    }
    return length_of(difference) / std::max(length_of(size), 1e-30);
}

/// What the network sees of these pictures when it trains.
Numbers varied_pictures(
    const cifar::Dataset& data,
    const std::vector<std::uint64_t>& order,
    const GpuNetwork::Options& options,
    std::uint64_t epoch) {
    std::vector<unsigned> narrow(order.begin(), order.end());
    std::vector<cifar::Eight> pixels(order.size() * cifar::plane_pixels);
    std::vector<unsigned char> labels(order.size());
    REQUIRE(cuda_on_cpu::launch(
        "cifar_load_batch",
        {{static_cast<unsigned>(pixels.size() / 256)}, {256}},
        data.pixels.data(),
        data.labels.data(),
        static_cast<const unsigned*>(narrow.data()),
        cifar::Augmentation{options.seed, epoch, options.cut, 1},
        static_cast<int>(order.size()),
        pixels.data(),
        labels.data()));
    Numbers all;
    for (const auto& pixel : pixels)
        for (const auto bits : pixel.value) {
            ddprun::BFloat16 number;
            number.bits = bits;
            all.push_back(static_cast<double>(static_cast<float>(number)));
        }
    return all;
}

}  // namespace

TEST_CASE("the CUDA part's forward and backward are those of the plain network") {
    constexpr std::size_t count = 4;
    const auto options = options_of(count);
    const auto data = cifar::paint_pictures(7, Split::train, 3);
    const std::vector<std::uint64_t> order{6, 2, 0, 5};
    Trainee trainee{options};
    trainee.gpu->load(Split::train, data);

    trainee.gpu->begin_epoch(3, order);
    std::vector<std::size_t> done;
    trainee.gpu->train(0, count, [&](std::size_t parameter) { done.push_back(parameter); });
    const auto totals = trainee.gpu->take_totals();

    std::vector<std::uint8_t> labels;
    for (const auto index : order)
        labels.push_back(data.labels[index]);
    const auto expected = reference::train(
        trainee.net,
        trainee.exact_parameters(),
        varied_pictures(data, order, options, 3),
        labels,
        reference::as_bfloat16);

    CHECK(totals.loss / count == doctest::Approx(expected.loss).epsilon(0.002));
    CHECK(totals.correct == static_cast<double>(expected.correct));
    std::vector<std::size_t> backwards(trainee.net.parameters.size());
    std::iota(backwards.rbegin(), backwards.rend(), 0U);
    CHECK(done == backwards);
    for (std::size_t p = 0; p < trainee.gradients.size(); ++p) {
        CAPTURE(trainee.net.parameters[p].name);
        CHECK(apart(trainee.gradients[p].values(), expected.gradients[p]) < 0.03);
    }

    const auto running = trainee.gpu->running_averages();
    std::size_t at = 0;
    for (const auto& norm : expected.norms) {
        for (const auto mean : norm.mean)
            CHECK(running[at++] == doctest::Approx(0.1 * mean).epsilon(0.01));
        at += norm.variance.size();
    }
}

TEST_CASE("a small network learns painted pictures on the GPU, and knows them when asked") {
    constexpr std::size_t batch_size = 20;
    constexpr std::size_t picture_count = 40;
    const auto options = options_of(batch_size);
    const auto data = cifar::paint_pictures(picture_count, Split::train, 1);
    Trainee trainee{options};
    trainee.gpu->load(Split::train, data);
    trainee.gpu->load(Split::test, data);
    const auto order = first_numbers(picture_count);

    double first_loss = 0;
    cifar::Totals totals;
    const DeviceArray<std::uint32_t> committed{{1}};
    for (std::uint64_t epoch = 0; epoch < 12; ++epoch) {
        trainee.gpu->begin_epoch(epoch, order);
        for (std::size_t first = 0; first < picture_count; first += batch_size) {
            trainee.gpu->train(first, batch_size, [](std::size_t) {});
            trainee.gpu->update(0.05F, committed.data());
        }
        totals = trainee.gpu->take_totals();
        if (epoch == 0) first_loss = totals.loss;
    }
    CHECK(totals.loss < 0.75 * first_loss);
    // Four in forty is the rate of guessing. Each of two ranks tests every other picture.
    const auto correct = trainee.gpu->count_correct(0, 2) + trainee.gpu->count_correct(1, 2);
    CHECK(correct > 10);
    CHECK(correct == trainee.gpu->count_correct(0, 1));
}

TEST_CASE("an update that is not committed changes nothing") {
    const auto data = cifar::paint_pictures(2, Split::train, 1);
    Trainee trainee{options_of(2)};
    trainee.gpu->load(Split::train, data);
    trainee.gpu->begin_epoch(0, {0, 1});
    trainee.gpu->train(0, 2, [](std::size_t) {});
    const auto before = trainee.gpu->parameter(0);

    const DeviceArray<std::uint32_t> no{{0}};
    trainee.gpu->update(0.1F, no.data());
    CHECK(trainee.gpu->parameter(0) == before);
    CHECK(trainee.gpu->velocity(0) == std::vector<float>(before.size(), 0));

    trainee.gpu->update(0.1F, nullptr);
    CHECK(trainee.gpu->parameter(0) != before);
}

namespace {

/// Two networks in two threads, each with half of the batch; batch norm covers both or only one.
struct Pair {
    explicit Pair(bool is_synchronised) : is_synchronised_(is_synchronised) {}

    void train_both(const cifar::Dataset& data) {
        std::thread other{[&] { train(1, data, {1, 3, 5}); }};
        train(0, data, {0, 2, 4});
        other.join();
    }

    std::vector<float> average(std::size_t parameter) const {
        std::vector<float> result;
        for (std::size_t i = 0; i < gradients[0][parameter].size(); ++i)
            result.push_back((gradients[0][parameter][i] + gradients[1][parameter][i]) / 2);
        return result;
    }

    double loss[2] = {};
    std::vector<float> running[2];
    std::vector<std::vector<float>> gradients[2];

private:
    GpuNetwork::SumOverRanks sum_of(int rank, GpuNetwork& gpu) {
        return [this, rank, &gpu](float* mine, std::size_t count) {
            fake_gpu().wait(gpu.stream());
            sums_[rank] = mine;
            both_.arrive_and_wait();
            std::vector<float> sum(count);
            for (std::size_t i = 0; i < count; ++i)
                sum[i] = sums_[0][i] + sums_[1][i];
            both_.arrive_and_wait();
            std::copy(sum.begin(), sum.end(), mine);
        };
    }

    void train(int rank, const cifar::Dataset& data, const std::vector<std::uint64_t>& order) {
        auto options = options_of(order.size());
        options.device = rank;
        Trainee trainee{options};
        trainee.gpu->load(Split::train, data);
        if (is_synchronised_) trainee.gpu->synchronise_norm(2, sum_of(rank, *trainee.gpu));
        trainee.gpu->begin_epoch(0, order);
        trainee.gpu->train(0, order.size(), [](std::size_t) {});
        loss[rank] = trainee.gpu->take_totals().loss;
        running[rank] = trainee.gpu->running_averages();
        for (const auto& gradient : trainee.gradients)
            gradients[rank].push_back(gradient.values());
    }

    bool is_synchronised_;
    std::barrier<> both_{2};
    float* sums_[2] = {};
};

}  // namespace

TEST_CASE("two ranks whose batch norm is over both train like one with the joint batch") {
    const auto data = cifar::paint_pictures(6, Split::train, 5);
    Trainee whole{options_of(6)};
    whole.gpu->load(Split::train, data);
    whole.gpu->begin_epoch(0, first_numbers(6));
    whole.gpu->train(0, 6, [](std::size_t) {});
    const auto totals = whole.gpu->take_totals();

    Pair together{true};
    together.train_both(data);
    Pair apart_from_each_other{false};
    apart_from_each_other.train_both(data);

    CHECK(together.loss[0] + together.loss[1] == doctest::Approx(totals.loss).epsilon(0.002));
    CHECK(together.running[0] == together.running[1]);
    CHECK(apart(together.running[0], whole.gpu->running_averages()) < 0.001);
    for (std::size_t p = 0; p < whole.gradients.size(); ++p) {
        CAPTURE(whole.net.parameters[p].name);
        const auto expected = whole.gradients[p].values();
        // Sums in another order are rounded differently, and if two pixels are nearly equal, the
        // other one may become the maximum: with so few pictures that changes gradients visibly.
        CHECK(apart(together.average(p), expected) < 0.25);
        CHECK(
            apart(together.average(p), expected) <
            0.5 * apart(apart_from_each_other.average(p), expected));
    }
}

TEST_CASE("what a checkpoint holds can be taken out and put back") {
    Trainee trainee{options_of(2)};
    const auto& parameter = trainee.net.parameters[cifar::weight_of(1)];
    std::vector<float> values(parameter.count());
    std::iota(values.begin(), values.end(), 1.0F);
    trainee.gpu->set_velocity(cifar::weight_of(1), values);
    CHECK(trainee.gpu->velocity(cifar::weight_of(1)) == values);
    trainee.gpu->set_parameter(cifar::weight_of(1), values);
    CHECK(trainee.parameters[cifar::weight_of(1)].values() == values);
    CHECK(trainee.gpu->parameter(cifar::weight_of(1)) == values);
    std::vector<float> running(trainee.gpu->running_count(), 0.25F);
    trainee.gpu->set_running_averages(running);
    CHECK(trainee.gpu->running_averages() == running);
    CHECK_THROWS(trainee.gpu->set_parameter(0, {1, 2}));
}
