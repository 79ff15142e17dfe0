// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/collective.hpp"

#include "worker_sdk/src/groups/part_counts.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::groups;
using Kind = Collective::Kind;

namespace {

Collective a_call(Kind kind, ElementType type, std::size_t count) {
    static double somewhere = 0;
    static double elsewhere[4] = {};
    Collective collective;
    collective.kind = kind;
    collective.type = type;
    collective.count = count;
    const bool has_parts = kind == Kind::reduce_scatter || kind == Kind::scatter;
    collective.input = has_parts ? elsewhere : &somewhere;
    if (kind == Kind::all_reduce) collective.input = nullptr;  // in place
    collective.data = has_parts ? &somewhere : elsewhere;
    collective.sequence = 7;
    return collective;
}

std::string complaint_about(const Collective& collective) {
    const auto wrong = check(collective, 0, 4);
    if (!wrong) return {};
    CHECK(wrong->kind == GroupError::Kind::usage);
    return wrong->text;
}

}  // namespace

TEST_CASE("a collective describes what all ranks must agree on") {
    auto reduce = a_call(Kind::all_reduce, ElementType::float32, 1000);
    auto broadcast = a_call(Kind::broadcast, ElementType::uint8, 3);
    broadcast.root = 2;

    CHECK(describe(reduce) == "call 7: all_reduce (sum) of 1000 float32");
    reduce.op = Op::average;
    CHECK(describe(reduce) == "call 7: all_reduce (average) of 1000 float32");
    CHECK(describe(broadcast) == "call 7: broadcast from rank 2 of 3 uint8");
    CHECK(
        describe(a_call(Kind::all_gather, ElementType::int64, 1)) ==
        "call 7: all_gather of 1 int64");
    CHECK(describe(a_call(Kind::barrier, ElementType::uint8, 0)) == "call 7: barrier");
    CHECK(describe(a_call(Kind::split, ElementType::int32, 2)) == "call 7: split");
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

TEST_CASE("the addresses of buffers are not in the tag") {
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

    auto send = a_call(Kind::send, ElementType::int32, 1);
    send.receiver = 0;
    CHECK(
        complaint_about(send) ==
        "message 7 from rank 0 to rank 0: 1 int32: a rank needs no message to itself");
}

TEST_CASE("buffers that overlap are refused, unless a rank's own part is in its place") {
    std::vector<float> memory(64);
    const auto complains = [&](Kind kind, std::size_t input, std::size_t output, int root = 2) {
        auto call = a_call(kind, ElementType::float32, 4);
        call.input = memory.data() + input;
        call.data = memory.data() + output;
        call.root = root;
        const auto wrong = check(call, 2, 4);
        return wrong && wrong->text.find("input and output overlap") != std::string::npos;
    };

    // Rank 2's part of the 16 elements at 20 is at 28.
    for (const auto kind : {Kind::all_gather, Kind::gather}) {
        CHECK_FALSE(complains(kind, 28, 20));
        CHECK_FALSE(complains(kind, 16, 20));
        CHECK_FALSE(complains(kind, 36, 20));
        for (const std::size_t input : {17, 20, 24, 27, 29, 35})
            CHECK(complains(kind, input, 20));
    }
    for (const auto kind : {Kind::reduce_scatter, Kind::scatter}) {
        CHECK_FALSE(complains(kind, 20, 28));
        CHECK(complains(kind, 20, 20));
        CHECK(complains(kind, 20, 35));
    }
    CHECK_FALSE(complains(Kind::gather, 20, 20, 1));
    CHECK_FALSE(complains(Kind::scatter, 20, 20, 1));
    CHECK_FALSE(complains(Kind::all_to_all, 4, 20));
    CHECK(complains(Kind::all_to_all, 20, 20));
    CHECK(complains(Kind::all_to_all, 5, 20));
}

TEST_CASE("an all_reduce is in place, or between buffers that do not overlap") {
    std::vector<float> memory(64);
    const auto complains = [&](std::size_t input, std::size_t output) {
        auto call = a_call(Kind::all_reduce, ElementType::float32, 4);
        call.input = memory.data() + input;
        call.data = memory.data() + output;
        return check(call, 2, 4).has_value();
    };

    CHECK_FALSE(complains(20, 20));
    CHECK_FALSE(complains(16, 20));
    CHECK_FALSE(complains(24, 20));
    CHECK(complains(17, 20));
    CHECK(complains(23, 20));
}

TEST_CASE("parts of different sizes: lists, buffers and overlaps are checked") {
    std::vector<float> memory(64);
    const auto complaint = [&](Kind kind, PartCounts counts, float* input, float* output) {
        auto call = a_call(kind, ElementType::float32, 0);
        call.counts = std::make_shared<PartCounts>(std::move(counts));
        call.input = input;
        call.data = output;
        const auto wrong = check(call, 2, 4);
        return wrong ? wrong->text : "";
    };
    const auto has = [](const std::string& text, const char* part) {
        return text.find(part) != std::string::npos;
    };
    auto* const at = memory.data();

    CHECK(complaint(Kind::all_gather_v, {{3}, {1, 2, 3, 0}}, at, at + 10).empty());
    CHECK(complaint(Kind::all_gather_v, {{3}, {1, 2, 3, 0}}, at + 3, at).empty());  // in its place
    CHECK(has(complaint(Kind::all_gather_v, {{3}, {1, 2, 3, 0}}, at + 2, at), "overlap"));
    CHECK(
        has(complaint(Kind::all_gather_v, {{2}, {1, 2, 3, 0}}, at, at + 10), "this rank's count"));
    CHECK(has(complaint(Kind::all_gather_v, {{3}, {1, 2, 3}}, at, at + 10), "one count for each"));
    CHECK(complaint(Kind::all_to_all_v, {{0, 0, 0, 0}, {1, 0, 0, 2}}, nullptr, at).empty());
    CHECK(has(
        complaint(Kind::all_to_all_v, {{0, 0, 1, 0}, {1, 0, 0, 2}}, nullptr, at), "null pointer"));
    CHECK(has(complaint(Kind::all_to_all_v, {{4, 0, 0, 0}, {1, 0, 0, 2}}, at, at + 3), "overlap"));
    // A buffer without elements may be anywhere.
    CHECK(complaint(Kind::all_to_all_v, {{0, 0, 0, 0}, {1, 0, 0, 2}}, at + 1, at).empty());
    CHECK(complaint(Kind::all_to_all_v, {{1, 0, 0, 2}, {0, 0, 0, 0}}, at, at + 1).empty());
    CHECK(complaint(Kind::all_gather_v, {{0}, {1, 2, 0, 3}}, at + 1, at).empty());
}

TEST_CASE("counts of parts that do not fit together name both sides") {
    auto call = a_call(Kind::all_to_all_v, ElementType::float32, 0);
    const auto numbers = [](ElementType type, std::vector<std::int64_t> counts) {
        counts.insert(counts.begin(), static_cast<std::int64_t>(type));
        return counts;
    };
    const auto compared = [&](const std::vector<std::vector<std::int64_t>>& ranks) {
        std::vector<std::int64_t> all;
        for (const auto& one : ranks)
            all.insert(all.end(), one.begin(), one.end());
        return std::pair{mismatch_of_counts(call, all, 2), largest_part(all, 2)};
    };
    const auto f = ElementType::float32;

    CHECK(
        compared({numbers(f, {1, 2, 1, 7}), numbers(f, {7, 0, 2, 0})}) ==
        std::pair<Outcome, std::size_t>{{}, 7});
    const auto other_count = compared({numbers(f, {1, 2, 1, 7}), numbers(f, {7, 0, 3, 0})}).first;
    REQUIRE(other_count);
    CHECK(other_count->kind == GroupError::Kind::mismatch);
    CHECK(other_count->one_side == "rank 0 is at call 7: all_to_all_v, with 2 float32 for rank 1");
    CHECK(
        other_count->other_side ==
        "rank 1 is at call 7: all_to_all_v, with room for 3 float32 from rank 0");
    const auto other_type =
        compared({numbers(f, {1, 2, 1, 7}), numbers(ElementType::int32, {7, 0, 2, 0})}).first;
    REQUIRE(other_type);
    CHECK(other_type->other_side.find("room for 2 int32 from rank 0") != std::string::npos);

    call.counts = std::make_shared<PartCounts>(PartCounts{{3}, {1, 3}});
    CHECK(counts_to_compare(call, 2) == std::vector<std::int64_t>{0, 3, 3, 1, 3});
}

TEST_CASE("a buffer that only the root needs may be missing elsewhere") {
    for (const auto kind : {Kind::gather, Kind::scatter}) {
        auto call = a_call(kind, ElementType::float32, 1);
        (kind == Kind::gather ? call.data : const_cast<void*&>(call.input)) = nullptr;

        call.root = 1;
        CHECK(complaint_about(call) == "");
        call.root = 0;
        CHECK(complaint_about(call).find("null pointer") != std::string::npos);
    }
}

TEST_CASE("the two ends of a message are the same call") {
    auto send = a_call(Kind::send, ElementType::float16, 3);
    send.receiver = 1;
    auto recv = send;
    recv.kind = Kind::recv;

    CHECK(is_same_call(send, recv));
    CHECK(tag_of(send) == tag_of(recv));
    CHECK(describe(send) == describe(recv));
    CHECK(describe(send) == "message 7 from rank 0 to rank 1: 3 float16");
    recv.count = 4;
    CHECK(!is_same_call(send, recv));
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

TEST_CASE("an error survives the store") {
    GroupError lost{GroupError::Kind::peer_lost, "lost ranks 1 and 3"};
    lost.ranks = {1, 3};
    const auto mismatch = mismatch_between("rank 0 is at a", "rank 1 is at b");

    CHECK(error_from_text(written(lost)) == lost);
    CHECK(error_from_text(written(mismatch)) == mismatch);
    for (const char* text : {"", "lost", "else\na\nb"})
        CHECK(!error_from_text(text));
}
