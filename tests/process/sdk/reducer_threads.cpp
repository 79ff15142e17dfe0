// SPDX-License-Identifier: Apache-2.0
#include "ddprun/error.hpp"
#include "ddprun/reducer.hpp"
#include "tests/process/sdk/thread_ranks.hpp"
#include "worker_sdk/src/reduce/agreement.hpp"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

using namespace ddprun;
using namespace ddprun::groups;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

/// Three parameters, a bucket each.
Reducer small_model(const ProcessGroup& group) {
    Reducer::Options options;
    options.first_bucket_bytes = 1;
    options.bucket_bytes = 1;
    return Reducer(group, {{"a", 5}, {"b", 100}, {"c", 1}}, options);
}

void fill(Reducer& model, std::size_t parameter, float value) {
    std::fill_n(model.grad(parameter), model.spec(parameter).count, value);
}

}  // namespace

TEST_CASE("sdk: gradients are averaged whatever order each rank marks them in") {
    const auto complaints = on_ranks(3, [](const ProcessGroup& group) {
        auto model = small_model(group);
        for (int step = 0; step < 50; ++step) {
            for (std::size_t i = 0; i < 3; ++i) {
                const auto parameter = (i + static_cast<std::size_t>(group.rank() + step)) % 3;
                fill(model, parameter, static_cast<float>(group.rank() * 3 + step));
                model.mark_ready(parameter);
            }
            model.finish();
            for (std::size_t i = 0; i < 3; ++i)
                if (model.grad(i)[model.spec(i).count - 1] != static_cast<float>(3 + step))
                    throw Error("wrong average in step " + std::to_string(step));
        }
    });

    CHECK(complaints == Texts{"", "", ""});
}

TEST_CASE("sdk: under no_sync gradients add up locally and the next step averages the sum") {
    const auto complaints = on_ranks(2, [](const ProcessGroup& group) {
        auto model = small_model(group);
        const auto backward = [&](float value) {
            for (std::size_t i = 3; i-- > 0;) {
                for (std::size_t k = 0; k < model.spec(i).count; ++k)
                    model.grad(i)[k] += value;
                model.mark_ready(i);
            }
            model.finish();
        };
        const auto rank = static_cast<float>(group.rank());

        {
            const auto guard = model.no_sync();
            backward(rank);
            const auto nested = model.no_sync();
            backward(rank);
        }
        if (model.grad(1)[99] != 2 * rank) throw Error("something was reduced under no_sync");
        backward(10);

        if (model.grad(1)[99] != 11.0F) throw Error("the sum was not averaged");
    });

    CHECK(complaints == Texts{"", ""});
}

TEST_CASE("sdk: views are aligned, start as zero and do not overlap") {
    on_ranks(1, [](const ProcessGroup& group) {
        auto model = small_model(group);

        for (std::size_t i = 0; i < 3; ++i) {
            CHECK(reinterpret_cast<std::uintptr_t>(model.param(i)) % 64 == 0);
            CHECK(reinterpret_cast<std::uintptr_t>(model.grad(i)) % 64 == 0);
            CHECK(model.param(i)[0] == 0.0F);
            fill(model, i, static_cast<float>(i + 1));
        }
        for (std::size_t i = 0; i < 3; ++i)
            CHECK(model.grad(i)[model.spec(i).count - 1] == static_cast<float>(i + 1));
        model.zero_gradients();
        CHECK(model.grad(1)[50] == 0.0F);
    });
}

TEST_CASE("sdk: an invalid call in a step is refused with the name of the parameter") {
    on_ranks(1, [](const ProcessGroup& group) {
        auto model = small_model(group);

        CHECK(misuse([&] { model.finish(); }) == "finish, but not marked ready: a, b, c");
        model.mark_ready(2);
        CHECK(misuse([&] {
                  model.mark_ready(2);
              }) == "parameter c is marked ready twice in one step");
        CHECK(misuse([&] { model.mark_ready(3); }) == "parameter 3: there are 3");
        CHECK(misuse([&] {
                  model.zero_gradients();
              }) == "zero_gradients between mark_ready and finish");
        {
            const auto guard = model.no_sync();
            CHECK(misuse([&] {
                      model.mark_ready(1);
                  }) == "a no_sync guard begins or ends between mark_ready and finish");
        }
        model.mark_ready(1);
        CHECK(misuse([&] { model.finish(); }) == "finish, but not marked ready: a");
        model.mark_ready(0);
        model.finish();
    });
}

TEST_CASE("sdk: invalid parameters are refused on every rank") {
    using Specs = std::vector<ParameterSpec>;
    const auto refusal = [](const Specs& specs) {
        const auto complaints =
            on_ranks(2, [&](const ProcessGroup& group) { Reducer(group, specs); });
        CHECK(complaints[0] == complaints[1]);
        return complaints[0];
    };

    CHECK(refusal({}) == "");
    CHECK(refusal({{"a", 1}, {"a", 2}}) == "two parameters are named a");
    CHECK(refusal({{"a", 0}}) == "parameter a has no elements");
    CHECK(refusal({{"", 1}}) == "a parameter needs a name of one line");
    CHECK(refusal({{"a", SIZE_MAX / 2}}) == "the parameters are more than memory can hold");
}

TEST_CASE("sdk: different models are an error on all ranks that names parameter and rank") {
    const auto complaints = on_ranks(4, [](const ProcessGroup& group) {
        std::vector<ParameterSpec> specs{{"fc1.weight", 10}, {"fc1.bias", 5}};
        if (group.rank() == 2) specs[1].count = 6;
        if (group.rank() == 3) specs.pop_back();
        Reducer(group, specs);
    });

    const std::string expected =
        "the ranks have different models: rank 2: parameter 1 is fc1.bias with 6 elements, on "
        "rank 0 it is fc1.bias with 5 elements";
    CHECK(complaints == Texts{expected, expected, expected, expected});
}

TEST_CASE("sdk: different bucket sizes are an error on all ranks") {
    const auto complaints = on_ranks(2, [](const ProcessGroup& group) {
        Reducer::Options options;
        if (group.rank() == 1) options.bucket_bytes = 5;
        Reducer(group, {{"a", 1}}, options);
    });

    CHECK(
        complaints[0] ==
        "the ranks have different models: rank 1: the options are first_bucket_bytes 1048576, "
        "bucket_bytes 5, on rank 0 they are first_bucket_bytes 1048576, bucket_bytes 26214400");
    CHECK(complaints[1] == complaints[0]);
}

TEST_CASE("sdk: the first difference of two models is described") {
    const std::vector<ParameterSpec> one{{"a", 1}, {"b", 2}};
    const auto text = [](const std::vector<ParameterSpec>& specs) {
        return reduce::text_of(specs, {}, {});
    };

    CHECK(reduce::first_difference(text(one), text(one)) == "");
    CHECK(
        reduce::first_difference(text(one), text({{"a", 1}})) ==
        "parameter 1 is b with 2 elements, on rank 0 it is missing");
    CHECK(
        reduce::first_difference(text({{"a", 1}}), text(one)) ==
        "parameter 1 is missing, on rank 0 it is b with 2 elements");
}

TEST_CASE("sdk: parameters that differ between ranks are reported by name and rank") {
    const auto complaints = on_ranks(3, [](const ProcessGroup& group) {
        auto model = small_model(group);
        model.verify_parameters();
        if (group.rank() == 2) model.param(1)[99] = 1e-30F;
        model.verify_parameters();
    });

    const std::string expected = "parameter b on rank 2 differs from rank 0's";
    CHECK(complaints == Texts{expected, expected, expected});
}

TEST_CASE("sdk: all ranks take the parameters of the root") {
    const auto complaints = on_ranks(3, [](const ProcessGroup& group) {
        auto model = small_model(group);
        model.param(0)[4] = static_cast<float>(group.rank());
        model.broadcast_parameters(1);
        model.verify_parameters();
        if (model.param(0)[4] != 1.0F) throw Error("not the root's");
    });

    CHECK(complaints == Texts{"", "", ""});
}

TEST_CASE("sdk: a rank that leaves in mid-step ends the step of the others") {
    const auto complaints = on_ranks(3, [](const ProcessGroup& group) {
        auto model = small_model(group);
        model.mark_ready(2);
        if (group.rank() == 1) throw Error("my data is broken");
        model.mark_ready(1);
        model.mark_ready(0);
        model.finish();
    });

    CHECK(complaints[1] == "my data is broken");
    CHECK(complaints[0] == "call 3: all_reduce (average) of 112 float32: rank 1 left the group");
    CHECK(complaints[2] == complaints[0]);
}

TEST_CASE("sdk: ranks that launch different collectives get Mismatch, on all of them") {
    const auto complaints = on_ranks(2, [](const ProcessGroup& group) {
        std::vector<float> values(2);
        try {
            group.all_reduce(values.data(), group.rank() == 0 ? 1U : 2U).wait();
        } catch (const Mismatch&) {
            group.barrier().wait();  // the same error again
        }
    });

    for (const auto& complaint : complaints) {
        CHECK(complaint.find("all_reduce (sum) of 1 float32") != std::string::npos);
        CHECK(complaint.find("all_reduce (sum) of 2 float32") != std::string::npos);
    }
}

TEST_CASE("sdk: an abort from another thread ends a collective that waits") {
    const auto loopback = std::make_shared<Loopback>(2);
    const auto group = join(loopback, 0, 2);
    auto work = group.barrier();

    std::thread other([group] { group.abort(); });

    CHECK_THROWS_WITH_AS(work.wait(), "the group was aborted on this rank", PeerLost);
    other.join();
}

TEST_CASE("sdk: a collective that no other rank joins ends with Timeout") {
    const auto loopback = std::make_shared<Loopback>(2);
    const auto group = join(loopback, 0, 2, 30ms);

    CHECK_THROWS_WITH_AS(
        group.barrier().wait(), "call 1: barrier: not all ranks came within 30 ms", Timeout);
}

TEST_CASE("sdk: the destructor of a Work waits, so its buffer may be freed") {
    const auto complaints = on_ranks(2, [](const ProcessGroup& group) {
        for (int i = 0; i < 100; ++i) {
            std::vector<float> values(1000, 1.0F);
            { const auto dropped = group.all_reduce(values.data(), values.size()); }
            if (values[999] != 2.0F) throw Error("did not wait");
        }
    });

    CHECK(complaints == Texts{"", ""});
}

TEST_CASE("sdk: the loopback backend is for a world of one") {
    World two;
    two.world_size = 2;
    ProcessGroup::Options options;
    options.backend = Backend::loopback;

    CHECK(misuse([&] {
              ProcessGroup::create(two, Store::connect(World{}), options);
          }) == "the loopback backend is for a world of one, this one has 2");
    CHECK(ProcessGroup::create(World{}).backend() == Backend::loopback);
}
