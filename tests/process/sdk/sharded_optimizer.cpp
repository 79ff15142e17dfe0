// SPDX-License-Identifier: Apache-2.0
#include "ddprun/sharded_optimizer.hpp"

#include "tests/process/sdk/sharded_steps.hpp"
#include "tests/process/sdk/thread_ranks.hpp"
#include "tests/process/sdk/workers.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::test;
using namespace ddprun::tests;

namespace {

Texts none(int ranks) {
    return Texts(static_cast<std::size_t>(ranks));
}

ShardedOptimizer started(const ProcessGroup& group, const ShardedOptimizer::Options& options) {
    ShardedOptimizer model(group, odd_parameters(), options);
    if (group.rank() == 0) set_first_values(model);
    model.broadcast_parameters();
    return model;
}

ShardedOptimizer::Options adam_w() {
    return small_buckets(false, ElementType::float32);
}

}  // namespace

TEST_CASE("sdk: a sharded optimizer gives the bits of an unsharded one, on 1 to 5 ranks") {
    for (const int ranks : {1, 2, 3, 4, 5}) {
        CAPTURE(ranks);
        const auto complaints = on_ranks(ranks, [](const ProcessGroup& group) {
            const auto difference = difference_from_unsharded(group);
            require(difference.empty(), difference);
        });
        CHECK(complaints == none(ranks));
    }
}

TEST_CASE("sdk: a sharded optimizer gives these bits through shared memory and between hosts") {
    for (const std::string hosts :
         {"a", "a,a", "a,a,a", "a,a,a,a", "a,b", "a,a,b", "a,b,a,b", "a,b,b"}) {
        CAPTURE(hosts);
        const auto count = static_cast<int>(hosts.size() + 1) / 2;
        Workers workers(count, {"sharded"}, {{"SDK_WORKER_HOSTS", hosts}});
        for (int rank = 0; rank < count; ++rank) {
            const int code = workers.exit_code(rank);
            CAPTURE(workers.output(rank));
            CHECK(code == 0);
        }
    }
}

TEST_CASE(
    "sdk: a rank of a sharded optimizer has its part of the state, and masters with bfloat16") {
    std::size_t elements = 0;
    for (const auto& spec : odd_parameters())
        elements += spec.count;
    for (const int ranks : {1, 2, 4}) {
        const auto complaints = on_ranks(ranks, [&](const ProcessGroup& group) {
            const auto own = elements / static_cast<std::size_t>(ranks);
            // The parts of a bucket are multiples of 16 elements; there are six buckets here.
            const auto slack = std::size_t{6} * 2 * 16 + 7 * 16;
            const auto is_about = [&](std::size_t bytes, std::size_t numbers) {
                return bytes >= numbers * sizeof(float) * own &&
                       bytes <= numbers * sizeof(float) * (own + slack);
            };
            const auto bytes_of = [&](bool is_sgd, ElementType type) {
                return ShardedOptimizer(group, odd_parameters(), small_buckets(is_sgd, type))
                    .state_bytes();
            };
            require(is_about(bytes_of(false, ElementType::float32), 2), "AdamW");
            require(is_about(bytes_of(true, ElementType::float32), 1), "SGD");
            require(is_about(bytes_of(false, ElementType::bfloat16), 3), "AdamW, bfloat16");
        });
        CHECK(complaints == none(ranks));
    }
}

TEST_CASE("sdk: a sharded optimizer clips by the norm of all gradients") {
    const auto complaints = on_ranks(3, [](const ProcessGroup& group) {
        auto options = adam_w();
        options.optimizer = Sgd{0};
        ShardedOptimizer model(group, {{"a", 2}, {"b", 2}}, options);
        model.broadcast_parameters();
        const float gradients[] = {1, 2, 2, 4};  // of norm 5
        for (std::size_t p = 0; p < 2; ++p) {
            for (std::size_t i = 0; i < 2; ++i)
                model.grad(p)[i] = gradients[p * 2 + i];
            model.mark_ready(p);
        }
        require(model.clip_gradients(2.5F) == 5, "the norm");
        model.step(1);
        model.await_parameters();
        for (std::size_t p = 0; p < 2; ++p)
            for (std::size_t i = 0; i < 2; ++i)
                require(
                    std::abs(model.param(p)[i] + gradients[p * 2 + i] / 2) < 1e-5F,
                    "not half of the gradients");
    });
    CHECK(complaints == none(3));
}

TEST_CASE("sdk: a sharded optimizer refuses calls that are out of order") {
    const auto complaints = on_ranks(1, [](const ProcessGroup& group) {
        ShardedOptimizer model(group, odd_parameters(), adam_w());
        const auto refuses = [](const std::string& words, const std::string& said) {
            require(said == words, said);
        };
        refuses("mark_ready: broadcast_parameters or load_newest comes before it", misuse([&] {
                    model.mark_ready(0);
                }));
        model.broadcast_parameters();
        model.mark_ready(0);
        refuses("parameter one.weight is marked ready twice in one step", misuse([&] {
                    model.mark_ready(0);
                }));
        refuses(
            "zero_gradients between mark_ready and step", misuse([&] { model.zero_gradients(); }));
        for (const std::size_t p : {1, 2, 3, 4})
            model.mark_ready(p);
        refuses(
            "step, but not marked ready: six.weight, seven.weight", misuse([&] { model.step(1); }));
        refuses("clip_gradients needs a norm above zero", misuse([&] { model.clip_gradients(0); }));
        refuses("parameter 7: there are 7", misuse([&] { model.await_parameter(7); }));
        refuses("param_bfloat16: the parameters are float32: param", misuse([&] {
                    model.param_bfloat16(0);
                }));
        auto options = adam_w();
        options.parameter_type = ElementType::float64;
        refuses("ShardedOptimizer: parameters are float32 or bfloat16", misuse([&] {
                    ShardedOptimizer(group, odd_parameters(), options);
                }));
    });
    CHECK(complaints == none(1));
}

TEST_CASE("sdk: ranks with different sharded optimizers are a mismatch, with both named") {
    const auto complaints = on_ranks(2, [](const ProcessGroup& group) {
        auto options = adam_w();
        if (group.rank() == 1) options.optimizer = Sgd{0.5F};
        ShardedOptimizer(group, odd_parameters(), options);
    });
    for (const auto& complaint : complaints) {
        CAPTURE(complaint);
        CHECK(complaint.find("rank 1: the options are") != std::string::npos);
        CHECK(complaint.find("SGD with momentum 0.5") != std::string::npos);
        CHECK(complaint.find("AdamW with rates 0.899999976 and") != std::string::npos);
    }
}

TEST_CASE("sdk: after a lost peer a sharded optimizer repeats the error") {
    const auto complaints = on_ranks(2, [](const ProcessGroup& group) {
        auto model = started(group, adam_w());
        take_step(model, 0);
        if (group.rank() == 1) {
            model.await_parameters();
            return group.abort();
        }
        std::string first;
        try {
            for (std::uint64_t number = 1;; ++number)
                take_step(model, number);
        } catch (const Error& error) {
            first = error.what();
        }
        const auto repeats = [&](const auto& call) {
            try {
                call();
            } catch (const Error& error) {
                return require(
                    error.what() == first, error.what() + std::string{" after "} + first);
            }
            require(false, "it was allowed");
        };
        repeats([&] { model.await_parameters(); });
        repeats([&] { model.zero_gradients(); });
        repeats([&] { model.broadcast_parameters(); });
        repeats([&] { model.save(ShardedFolder("never made"), {}); });
    });
    CHECK(complaints == none(2));
}
