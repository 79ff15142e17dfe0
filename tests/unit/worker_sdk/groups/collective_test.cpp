// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/collective.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <set>
#include <vector>

using namespace ddprun;
using namespace ddprun::groups;
using Kind = Collective::Kind;

namespace {

Collective a_call(Kind kind, ElementType type, std::size_t count) {
    static double somewhere = 0;
    Collective collective;
    collective.kind = kind;
    collective.type = type;
    collective.count = count;
    collective.input = &somewhere;
    collective.data = &somewhere;
    collective.sequence = 7;
    return collective;
}

std::string complaint_about(const Collective& collective) {
    const auto wrong = check(collective, 4);
    if (!wrong) return {};
    CHECK(wrong->kind == Trouble::Kind::usage);
    return wrong->text;
}

}  // namespace

TEST_CASE("a collective says in words what all ranks must agree on") {
    auto reduce = a_call(Kind::all_reduce, ElementType::float32, 1000);
    auto broadcast = a_call(Kind::broadcast, ElementType::byte, 3);
    broadcast.root = 2;

    CHECK(describe(reduce) == "call 7: all_reduce (sum) of 1000 float32");
    reduce.op = Op::average;
    CHECK(describe(reduce) == "call 7: all_reduce (average) of 1000 float32");
    CHECK(describe(broadcast) == "call 7: broadcast from rank 2 of 3 byte");
    CHECK(
        describe(a_call(Kind::all_gather, ElementType::int64, 1)) ==
        "call 7: all_gather of 1 int64");
    CHECK(describe(a_call(Kind::barrier, ElementType::byte, 0)) == "call 7: barrier");
}

TEST_CASE("calls that differ in anything that matters have different tags") {
    std::vector<Collective> calls{
        a_call(Kind::all_reduce, ElementType::float32, 1000),
        a_call(Kind::all_reduce, ElementType::float32, 1001),
        a_call(Kind::all_reduce, ElementType::float64, 1000),
        a_call(Kind::all_gather, ElementType::float32, 1000),
        a_call(Kind::broadcast, ElementType::float32, 1000),
        a_call(Kind::barrier, ElementType::float32, 0)};
    calls.push_back(calls[0]);
    calls.back().sequence = 8;
    calls.push_back(calls[0]);
    calls.back().op = Op::average;
    calls.push_back(calls[4]);
    calls.back().root = 1;

    std::set<std::uint32_t> tags;
    for (const auto& call : calls)
        tags.insert(tag_of(call));

    CHECK(tags.size() == calls.size());
}

TEST_CASE("where the buffers are is nobody else's business") {
    auto here = a_call(Kind::all_reduce, ElementType::float32, 1);
    auto there = here;
    there.data = &here;

    CHECK(tag_of(here) == tag_of(there));
}

TEST_CASE("calls that make no sense on one rank are refused there") {
    auto reduce = a_call(Kind::all_reduce, ElementType::float32, 1);
    CHECK(complaint_about(reduce) == "");

    reduce.data = nullptr;
    CHECK(
        complaint_about(reduce) ==
        "call 7: all_reduce (sum) of 1 float32: the buffer is a null pointer");
    reduce.count = 0;
    CHECK(complaint_about(reduce) == "");

    auto gather = a_call(Kind::all_gather, ElementType::float64, 1);
    gather.input = nullptr;
    CHECK(
        complaint_about(gather) == "call 7: all_gather of 1 float64: the buffer is a null pointer");
    gather.count = std::numeric_limits<std::size_t>::max() / 31;
    CHECK(complaint_about(gather).find("more than memory can hold") != std::string::npos);

    auto broadcast = a_call(Kind::broadcast, ElementType::float32, 1);
    for (const int root : {-1, 4}) {
        broadcast.root = root;
        CHECK(complaint_about(broadcast).find("there are ranks 0 to 3") != std::string::npos);
    }
    CHECK(
        complaint_about(a_call(Kind::all_reduce, ElementType::byte, 1)) ==
        "call 7: all_reduce (sum) of 1 byte: bytes cannot be added");
}

TEST_CASE("an average is the sum divided by the number of ranks, integers rounded towards zero") {
    std::vector<float> floats{3, -1};
    std::vector<double> doubles{1, 9};
    std::vector<std::int64_t> integers{7, -7, 8};

    divide(floats.data(), floats.size(), ElementType::float32, 2);
    divide(doubles.data(), doubles.size(), ElementType::float64, 3);
    divide(integers.data(), integers.size(), ElementType::int64, 4);

    CHECK(floats == std::vector<float>{1.5F, -0.5F});
    CHECK(doubles == std::vector<double>{1.0 / 3.0, 3});
    CHECK(integers == std::vector<std::int64_t>{1, -1, 2});
}
