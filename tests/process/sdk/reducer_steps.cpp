// SPDX-License-Identifier: Apache-2.0
#include "ddprun/metrics.hpp"
#include "ddprun/reducer.hpp"
#include "tests/process/sdk/thread_ranks.hpp"
#include "worker_sdk/src/reduce/agreement.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// A bucket for each parameter.
Reducer::Options small_buckets() {
    Reducer::Options options;
    options.first_bucket_bytes = 1;
    options.bucket_bytes = 1;
    return options;
}

const std::vector<ParameterSpec> three{{"a", 5}, {"b", 100}, {"c", 1}};

void fill(Reducer& model, std::size_t parameter, float value) {
    std::fill_n(model.grad(parameter), model.spec(parameter).count, value);
}

/// Every gradient of the step is `value`, marked in the usual order.
void backward(Reducer& model, float value) {
    for (std::size_t i = model.parameter_count(); i-- > 0;) {
        fill(model, i, value);
        model.mark_ready(i);
    }
}

bool all_are(const Reducer& model, std::size_t parameter, float value) {
    const auto* gradient = model.grad(parameter);
    return std::all_of(
        gradient, gradient + model.spec(parameter).count, [&](float one) { return one == value; });
}

void require_all(const Reducer& model, float value, const std::string& when) {
    for (std::size_t i = 0; i < model.parameter_count(); ++i)
        require(
            all_are(model, i, value),
            when + ": gradient " + std::to_string(i) + " is " + std::to_string(*model.grad(i)));
}

}  // namespace

TEST_CASE("sdk: buckets are reduced while the backward pass still runs") {
    const auto complaints = on_ranks(2, [](const ProcessGroup& group) {
        auto first = std::make_shared<std::shared_ptr<Work>>();
        auto options = small_buckets();
        options.hook = [first](const ProcessGroup& ranks, const GradientBucket& bucket) {
            auto work =
                std::make_shared<Work>(ranks.all_reduce(bucket.data, bucket.count, Op::average));
            if (bucket.index == 0) *first = work;
            return [work] { work->wait(); };
        };
        Reducer model(group, three, options);

        fill(model, 2, static_cast<float>(group.rank()));
        model.mark_ready(2);
        // The rest of the backward pass, which continues only when the first bucket is reduced.
        (*first)->wait(Work::Clock::now() + std::chrono::seconds(30));
        require(all_are(model, 2, 0.5F), "the first bucket is not averaged");
        model.mark_ready(1);
        model.mark_ready(0);
        model.finish();
    });

    CHECK(complaints == Texts{"", ""});
}

TEST_CASE("sdk: with reorder the gradients move once, into the order of rank 0's first step") {
    const auto complaints = on_ranks(3, [](const ProcessGroup& group) {
        auto options = small_buckets();
        options.reorder = true;
        Reducer model(group, three, options);
        const auto* parameter = model.param(1);
        for (int step = 0; step < 4; ++step) {
            const bool is_first = group.rank() == 0;
            for (const std::size_t i :
                 is_first ? std::vector<std::size_t>{1, 2, 0} : std::vector<std::size_t>{0, 1, 2}) {
                fill(model, i, static_cast<float>(group.rank() + step + static_cast<int>(i)));
                model.mark_ready(i);
            }
            require(model.finish() == (step == 0), "moved in step " + std::to_string(step));
            for (std::size_t i = 0; i < 3; ++i)
                require(
                    all_are(model, i, static_cast<float>(1 + step + static_cast<int>(i))),
                    "wrong average in step " + std::to_string(step));
            model.zero_gradients();
        }
        require(
            model.grad(1) < model.grad(2) && model.grad(2) < model.grad(0),
            "the gradients do not lie as they come");
        require(model.param(1) == parameter, "a parameter moved");
    });

    CHECK(complaints == Texts{"", "", ""});
}

TEST_CASE("sdk: an unused parameter counts as it is, and ranks agree on what no rank used") {
    const auto complaints = on_ranks(2, [](const ProcessGroup& group) {
        auto options = small_buckets();
        options.find_unused = true;
        Reducer model(group, three, options);

        fill(model, 0, 4.0F);
        model.mark_ready(0);
        if (group.rank() == 0) {
            fill(model, 1, 6.0F);
            model.mark_ready(1);
        }
        model.mark_rest_unused();
        model.finish();

        require(all_are(model, 0, 4.0F), "used by both");
        require(all_are(model, 1, 3.0F), "used by one");
        require(all_are(model, 2, 0.0F), "used by no rank");
        require(model.is_used(0) && model.is_used(1) && !model.is_used(2), "the agreement");
    });

    CHECK(complaints == Texts{"", ""});
}

TEST_CASE("sdk: what an unreduced step used counts for the reduced one after it") {
    const auto complaints = on_ranks(2, [](const ProcessGroup& group) {
        auto options = small_buckets();
        options.find_unused = true;
        Reducer model(group, three, options);
        {
            const auto guard = model.no_sync();
            if (group.rank() == 1) model.mark_ready(2);
            model.mark_rest_unused();
            model.finish();
        }
        model.mark_ready(0);
        model.mark_rest_unused();
        model.finish();
        require(model.is_used(0) && !model.is_used(1) && model.is_used(2), "the first time");

        model.mark_ready(0);
        model.mark_rest_unused();
        model.finish();
        require(model.is_used(0) && !model.is_used(2), "the second time");
    });

    CHECK(complaints == Texts{"", ""});
}

TEST_CASE("sdk: gradients are sent as 16 bits and are rounded, the same on all ranks") {
    const auto average = [](CommunicationHook (*hook)(), float mine_0, float mine_1) {
        float result = 0;
        const auto complaints = on_ranks(2, [&](const ProcessGroup& group) {
            auto options = small_buckets();
            options.hook = hook();
            Reducer model(group, three, options);
            for (int step = 0; step < 3; ++step) {
                backward(model, group.rank() == 0 ? mine_0 : mine_1);
                model.finish();
            }
            float other = *model.grad(1);
            group.broadcast(&other, 1, 1).wait();
            require(other == *model.grad(1), "ranks differ");
            require_all(model, other, "afterwards");
            if (group.rank() == 0) result = other;
        });
        CHECK(complaints == Texts{"", ""});
        return result;
    };

    CHECK(average(compress_to_bfloat16, 1.0F, 3.0F) == 2.0F);
    CHECK(average(compress_to_bfloat16, 1.001F, 1.001F) == 1.0F);  // 8 bits
    CHECK(average(compress_to_bfloat16, 2e38F, 2e38F) == doctest::Approx(2e38F).epsilon(0.01));
    CHECK(average(compress_to_float16, 1.0F, 3.0F) == 2.0F);
    CHECK(average(compress_to_float16, 1.001F, 1.001F) == doctest::Approx(1.001F).epsilon(1e-3));
    CHECK(average(compress_to_float16, 60'000.0F, 60'000.0F) == 60'000.0F);  // halved, then added
}

TEST_CASE("sdk: a hook gets every bucket in order, with the last one marked") {
    const auto complaints = on_ranks(2, [](const ProcessGroup& group) {
        std::string seen;
        auto options = small_buckets();
        options.hook = [&seen](const ProcessGroup&, const GradientBucket& bucket) -> FinishBucket {
            seen += std::to_string(bucket.index) + (bucket.is_last ? "! " : " ");
            return [&seen, bucket] { seen += "f" + std::to_string(bucket.index) + " "; };
        };
        Reducer model(group, three, options);
        model.mark_ready(0);
        model.mark_ready(2);
        model.mark_ready(1);
        model.finish();
        require(seen == "0 1 2! f0 f1 f2 ", seen);
    });

    CHECK(complaints == Texts{"", ""});
}

TEST_CASE("sdk: clipping scales to the norm over all gradients and returns the one before") {
    on_ranks(1, [](const ProcessGroup& group) {
        Reducer model(group, {{"a", 1}, {"b", 3}});
        const auto set = [&](float a, float b) {
            model.grad(0)[0] = a;
            fill(model, 1, b);
        };

        set(3, 4.0F / std::sqrt(3.0F));
        CHECK(model.clip_gradients(10) == doctest::Approx(5));
        CHECK(model.grad(0)[0] == 3.0F);
        CHECK(model.clip_gradients(1) == doctest::Approx(5));
        CHECK(model.grad(0)[0] == doctest::Approx(0.6));
        CHECK(model.clip_gradients(1) <= 1.0F);
        set(NAN, 1);
        CHECK(std::isnan(model.clip_gradients(1)));
        CHECK(misuse([&] { model.clip_gradients(0); }) == "clip_gradients needs a norm above zero");
        model.mark_ready(1);
        CHECK(misuse([&] {
                  model.clip_gradients(1);
              }) == "clip_gradients between mark_ready and finish");
    });
}

TEST_CASE("sdk: gradients and parameters may be in the caller's arrays") {
    const auto complaints = on_ranks(2, [](const ProcessGroup& group) {
        std::vector<float> parameters(106, static_cast<float>(group.rank()));
        std::vector<float> gradients(106);
        std::int64_t counter = 10 + group.rank();
        auto placement = flat_placement(three, parameters.data(), gradients.data());
        placement.buffers.push_back({"counter", &counter, 1, ElementType::int64});
        Reducer model(group, three, small_buckets(), placement);
        require(model.param(2) == &parameters[105] && model.grad(1) == &gradients[5], "views");

        model.broadcast_parameters(1);
        model.verify_parameters();
        require(parameters == std::vector<float>(106, 1.0F), "not the root's parameters");
        require(counter == 11, "not the root's buffer");
        for (int step = 0; step < 3; ++step) {
            backward(model, static_cast<float>(2 * group.rank() + step));
            model.finish();
            require(
                gradients == std::vector<float>(106, static_cast<float>(1 + step)), "not averaged");
        }
        counter = group.rank();
        model.broadcast_buffers();
        require(counter == 0, "not rank 0's buffer");
    });

    CHECK(complaints == Texts{"", ""});
}

TEST_CASE("sdk: an invalid placement is refused") {
    on_ranks(1, [](const ProcessGroup& group) {
        float one = 0;
        Placement placement;
        placement.parameters = {&one};
        CHECK(misuse([&] {
                  Reducer(group, three, {}, placement);
              }) == "the placement has 1 parameters, the model 3");
        CHECK(misuse([&] {
                  Reducer(group, {{"a", 1}}, {}, flat_placement({{"a", 1}}, nullptr, &one));
              }) == "the placement of parameter a is null");
        Reducer::Options options;
        options.reorder = true;
        placement.gradients = &one;
        CHECK(misuse([&] {
                  Reducer(group, {{"a", 1}}, options, placement);
              }) == "reorder needs the gradients in the reducer's own memory");
    });
}

TEST_CASE("sdk: ranks with different buffers get an error that names the buffer") {
    const auto complaints = on_ranks(2, [](const ProcessGroup& group) {
        std::vector<float> mean(4);
        Placement placement;
        if (group.rank() == 0) placement.buffers.push_back({"bn.mean", mean.data(), 4, {}});
        Reducer(group, three, {}, placement);
    });

    const std::string expected =
        "the ranks have different models: rank 1: buffer 0 is missing, on rank 0 it is bn.mean "
        "with 4 elements of type 0";
    CHECK(complaints == Texts{expected, expected});
}

TEST_CASE("sdk: step updates after the reduction, and counts what was committed") {
    const auto complaints = on_ranks(2, [](const ProcessGroup& group) {
        Reducer model(group, three, small_buckets());
        int updates = 0;
        {
            const auto guard = model.no_sync();
            backward(model, 1);
            model.step([&] { ++updates; });
        }
        require(updates == 0 && model.committed_steps() == 0, "updated under no_sync");
        backward(model, static_cast<float>(group.rank()));
        model.step([&] {
            ++updates;
            require_all(model, 0.5F, "in the update");
        });
        require(updates == 1 && model.committed_steps() == 1, "not committed once");
    });

    CHECK(complaints == Texts{"", ""});
}

TEST_CASE("sdk: gradients of a reduction that failed never reach the optimizer") {
    int updates = 0;
    std::vector<std::string> again;
    const auto complaints = on_ranks(2, [&](const ProcessGroup& group) {
        Reducer model(group, three, small_buckets());
        model.mark_ready(2);
        if (group.rank() == 1) throw Error("my data is broken");
        try {
            model.mark_ready(1);
            model.mark_ready(0);
        } catch (const PeerLost&) {
            // Rank 1 has left already.
        }
        const auto attempt = [&](const auto& call) {
            try {
                call();
                again.push_back("allowed");
            } catch (const PeerLost& error) {
                again.push_back(error.what());
            }
        };
        attempt([&] { model.step([&] { ++updates; }); });
        attempt([&] { model.step([&] { ++updates; }); });
        attempt([&] { model.finish(); });
        attempt([&] { model.clip_gradients(1); });
        attempt([&] { model.mark_ready(2); });
        attempt([&] { model.zero_gradients(); });
        attempt([&] { model.broadcast_parameters(); });
        require(model.committed_steps() == 0, "committed");
    });

    CHECK(complaints == Texts{"", "my data is broken"});
    CHECK(updates == 0);
    REQUIRE(again.size() == 7);
    CHECK(again[0].find("rank 1 left the group") != std::string::npos);
    CHECK(again == Texts(7, again[0]));
}

TEST_CASE(
    "sdk: ranks with fewer steps join those of the others, and all end with the same parameters "
    "parameters") {
    const auto complaints = on_ranks(3, [](const ProcessGroup& group) {
        auto options = small_buckets();
        options.uneven_inputs = true;
        options.find_unused = true;
        Reducer model(group, three, options);
        const int steps = std::vector<int>{2, 5, 0}[static_cast<std::size_t>(group.rank())];
        for (int step = 0; step < steps; ++step) {
            backward(model, 3.0F);
            model.step([&] {
                const float ranks = step < 2 ? 2.0F : 1.0F;
                require_all(model, ranks, "step " + std::to_string(step));
                for (std::size_t i = 0; i < 3; ++i)
                    for (std::size_t k = 0; k < model.spec(i).count; ++k)
                        model.param(i)[k] -= model.grad(i)[k];
            });
        }
        require(model.join() == 1, "not the last active rank");
        model.verify_parameters();
        require(*model.param(1) == -7.0F, "not the last active rank's parameters");

        // The next epoch.
        backward(model, static_cast<float>(group.rank()));
        model.finish();
        require_all(model, 1.0F, "in the next epoch");
        model.join();
    });

    CHECK(complaints == Texts{"", "", ""});
}

TEST_CASE("sdk: join without its option is refused") {
    on_ranks(1, [](const ProcessGroup& group) {
        Reducer model(group, three);
        CHECK(
            misuse([&] { model.join(); }) == "join needs the option uneven_inputs, on every rank");
    });
}

TEST_CASE("sdk: the check of the launch order finds the rank that launched other buckets") {
    const auto complaints = on_ranks(2, [](const ProcessGroup& group) {
        auto options = small_buckets();
        options.check_order_every = 2;
        Reducer model(group, three, options);
        for (int step = 0; step < 10; ++step) {
            backward(model, 1);
            model.finish();
        }
    });
    CHECK(complaints == Texts{"", ""});

    const auto apart = on_ranks(3, [](const ProcessGroup& group) {
        reduce::LaunchRecord record;
        record.add(group.rank() == 2 ? 1 : 0, 10);
        record.add(group.rank() == 2 ? 0 : 1, 10);
        record.require_same(group);
    });
    const std::string expected =
        "rank 2 has launched 2 buckets, rank 0 2, but not the same ones in the same order";
    CHECK(apart == Texts{expected, expected, expected});
}

TEST_CASE("sdk: metrics are added up over ranks, and restart at zero") {
    const auto complaints = on_ranks(3, [](const ProcessGroup& group) {
        Metrics metrics(group, 2);
        metrics.add(0, 0.5);
        metrics.add(0, 0.5);
        metrics.add(1, group.rank());
        require(metrics.reduce() == std::vector<double>{3, 3}, "the first time");
        require(metrics.reduce() == std::vector<double>{0, 0}, "the second time");
        require(
            misuse([&] { metrics.add(2, 1); }) == "metric 2: there are 2",
            "a metric that is not there");
    });

    CHECK(complaints == Texts{"", "", ""});
}
