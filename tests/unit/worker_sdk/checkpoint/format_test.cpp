// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/checkpoint/format.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::checkpoint;

namespace {

using Bytes = std::vector<std::byte>;

Checkpoint a_checkpoint() {
    Checkpoint checkpoint;
    checkpoint.round = 3;
    checkpoint.step = 1234;
    checkpoint.texts = {{"empty", ""}, {"settings", "seed=1 lr=0.1"}};
    checkpoint.add("weight", {2, 3}, std::vector<float>{1, -2, 3.5F, 0, -0.0F, 1e-30F});
    checkpoint.add("moments", {2}, std::vector<double>{1e300, -1e-300});
    checkpoint.add("nothing", {0, 7}, std::vector<float>{});
    checkpoint.add("consumed", std::int64_t{-5});
    return checkpoint;
}

Bytes encoded(const Checkpoint& checkpoint) {
    REQUIRE(check(checkpoint).has_value());
    Bytes bytes;
    const auto all = encode(checkpoint, [&](std::span<const std::byte> piece) -> Result<> {
        bytes.insert(bytes.end(), piece.begin(), piece.end());
        return {};
    });
    REQUIRE(all.has_value());
    return bytes;
}

/// Encoding it again gives the same bytes, so bytes are enough to compare checkpoints.
Bytes there_and_back(const Bytes& bytes) {
    return encoded(decode(bytes).value());
}

error_code refused(const Bytes& bytes) {
    const auto decoded = decode(bytes);
    return decoded ? error_code{} : decoded.error().code;
}

void append(Bytes& bytes, std::string_view text) {
    for (const char c : text)
        bytes.push_back(static_cast<std::byte>(c));
}

Bytes with_checksum(Bytes bytes) {
    std::uint32_t crc = 0xFFFF'FFFFU;  // bit by bit, from the definition
    for (const auto byte : bytes) {
        crc ^= static_cast<std::uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit)
            crc = crc >> 1U ^ ((crc & 1U) != 0 ? 0xEDB8'8320U : 0U);
    }
    crc = ~crc;
    for (int shift = 0; shift < 32; shift += 8)
        bytes.push_back(static_cast<std::byte>(crc >> shift & 0xFFU));
    return bytes;
}

}  // namespace

TEST_CASE("a checkpoint is read as it was written") {
    const auto bytes = encoded(a_checkpoint());

    const auto checkpoint = decode(bytes).value();

    CHECK(checkpoint.round == 3);
    CHECK(checkpoint.step == 1234);
    CHECK(checkpoint.texts == a_checkpoint().texts);
    REQUIRE(checkpoint.tensors.size() == 4);
    CHECK(checkpoint.find("weight")->shape == std::vector<std::uint64_t>{2, 3});
    CHECK(
        checkpoint.find("moments")->values == Tensor::Values{std::vector<double>{1e300, -1e-300}});
    CHECK(checkpoint.integer("consumed") == -5);
    CHECK(there_and_back(bytes) == bytes);
}

TEST_CASE("NaNs and signed zeros keep their bits") {
    Checkpoint checkpoint;
    checkpoint.round = 0;
    checkpoint.add("odd", {2}, std::vector<float>{std::nanf("7"), -0.0F});

    const auto back = decode(encoded(checkpoint)).value();

    const auto& values = std::get<std::vector<float>>(back.tensors[0].values);
    const auto& original = std::get<std::vector<float>>(checkpoint.tensors[0].values);
    CHECK(std::memcmp(values.data(), original.data(), 2 * sizeof(float)) == 0);
}

TEST_CASE("the worked example of FORMAT.md") {
    using namespace std::string_view_literals;
    Checkpoint checkpoint;
    checkpoint.round = 1;
    checkpoint.step = 2;
    checkpoint.texts["a"] = "b";
    checkpoint.add("w", {1}, std::vector<float>{1});
    Bytes expected;
    append(expected, "DDPCKPT\n\1\0\0\0\x4d\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"sv);
    append(expected, "\1\0\0\0\1\0\0\0\1\0\0\0a\1\0\0\0b\1\0\0\0w\1\1"sv);
    append(expected, "\1\0\0\0\0\0\0\0\0\0\x80\x3f"sv);

    CHECK(encoded(checkpoint) == with_checksum(expected));
}

TEST_CASE("the second worked example of FORMAT.md") {
    using namespace std::string_view_literals;
    Checkpoint checkpoint;
    checkpoint.round = 1;
    checkpoint.step = 2;
    const BFloat16 one(1.0F);
    checkpoint.views.push_back({"w", &one, 1, ElementType::bfloat16, {2, 5}});
    Bytes expected;
    append(expected, "DDPCKPT\n\2\0\0\0\x51\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"sv);
    append(expected, "\0\0\0\0\1\0\0\0\1\0\0\0w\x84\1"sv);
    append(expected, "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\x80\x3f"sv);

    CHECK(encoded(checkpoint) == with_checksum(expected));
}

TEST_CASE("floats of 16 bits are read as they were written, and need version 2") {
    CHECK(encoded(a_checkpoint())[8] == std::byte{1});
    auto checkpoint = a_checkpoint();
    const std::vector<BFloat16> brain{BFloat16(1.5F), BFloat16(-0.0F)};
    const std::vector<Float16> half{Float16(2.5F)};
    checkpoint.add("brain", {2}, brain);
    checkpoint.add_view_raw("half", half.data(), half.size(), ElementType::float16);

    const auto bytes = encoded(checkpoint);
    CHECK(bytes[8] == std::byte{2});
    const auto back = decode(bytes).value();
    CHECK(back.find("brain")->values == Tensor::Values{brain});
    CHECK(back.find("half")->values == Tensor::Values{half});
    CHECK(there_and_back(bytes) == bytes);

    std::vector<BFloat16> memory(2);
    const std::vector<TensorTarget> targets{
        {"brain", memory.data(), memory.size(), ElementType::bfloat16}};
    CHECK(decode(bytes, {targets}).has_value());
    CHECK(memory == brain);
    const std::vector<TensorTarget> wrong{{"half", memory.data(), 1, ElementType::bfloat16}};
    CHECK(
        decode(bytes, {wrong}).error().describe() ==
        "tensor 'half' is not of type bfloat16: the checkpoint does not fit the model");

    // The new types are unknown in a file of version 1.
    Bytes older(bytes.begin(), bytes.end() - 4);
    older[8] = std::byte{1};
    CHECK(refused(with_checksum(older)) == Fault::malformed);
}

TEST_CASE("a part of a tensor is read where it belongs") {
    const std::vector<float> values{3, 4, 5, 6};
    Checkpoint checkpoint;
    checkpoint.round = 1;
    checkpoint.views.push_back(
        {"weight", values.data(), values.size(), ElementType::float32, {3, 10}});
    const auto bytes = encoded(checkpoint);
    CHECK(there_and_back(bytes) == bytes);
    CHECK(decode(bytes).value().find("weight")->part.begin == 3);

    std::vector<float> memory(2);
    PartHeader seen;
    const PlaceOfPart inside = [&](const PartHeader& part) {
        seen = part;
        return PartRange{1, 2, memory.data()};
    };
    CHECK(decode(bytes, {{}, false, inside}).value().tensors.empty());
    CHECK(memory == std::vector<float>{4, 5});
    CHECK(seen.name == "weight");
    CHECK(seen.count == 4);
    CHECK(seen.part.begin == 3);
    CHECK(seen.part.whole_count == 10);

    memory = {0, 0};
    CHECK(decode(bytes, {{}, true, inside}).has_value());
    CHECK(memory == std::vector<float>{0, 0});
    const PlaceOfPart refusing = [](const PartHeader&) { return Failure{Fault::unfit, "no"}; };
    CHECK(decode(bytes, {{}, true, refusing}).error().code == Fault::unfit);
}

TEST_CASE("a part that lies outside its tensor is refused when it is written and when it is read") {
    Checkpoint checkpoint;
    checkpoint.round = 1;
    const float value = 1;
    checkpoint.views.push_back({"w", &value, 1, ElementType::float32, {9, 10}});
    auto bytes = encoded(checkpoint);
    bytes.resize(bytes.size() - 4);
    const auto whole_count = bytes.size() - sizeof value - 8;
    for (const int wrong : {9, 0}) {
        bytes[whole_count] = static_cast<std::byte>(wrong);
        CHECK(refused(with_checksum(bytes)) == Fault::malformed);
    }
    for (const std::uint64_t begin : {std::uint64_t{10}, ~std::uint64_t{0}}) {
        checkpoint.views[0].part.begin = begin;
        CHECK_FALSE(check(checkpoint).has_value());
    }
    checkpoint.views[0] = {"w", &value, 1, ElementType::int32, {}};
    CHECK(check(checkpoint).error().context == "tensor 'w' is of a type that no checkpoint has");
}

TEST_CASE("values are written from where they are, in pieces") {
    const std::vector<float> values(1'000'003, 2.5F);
    Checkpoint checkpoint;
    checkpoint.round = 1;
    checkpoint.add_view("weight", values.data(), values.size());
    const auto* const begin = reinterpret_cast<const std::byte*>(values.data());
    std::size_t largest = 0;
    std::size_t in_place = 0;

    const auto all = encode(checkpoint, [&](std::span<const std::byte> piece) -> Result<> {
        largest = std::max(largest, piece.size());
        const bool is_there = piece.data() >= begin && piece.data() < begin + 4 * values.size();
        if (is_there) in_place += piece.size();
        return {};
    });

    CHECK(all.has_value());
    CHECK(largest <= 256 * 1024);
    CHECK(in_place == 4 * values.size());
    const auto back = decode(encoded(checkpoint)).value();
    CHECK(std::get<std::vector<float>>(back.tensors[0].values) == values);
}

TEST_CASE("the first error of the sink ends the encoding") {
    int pieces = 0;
    const auto all = encode(a_checkpoint(), [&](std::span<const std::byte>) -> Result<> {
        ++pieces;
        return Failure{Fault::damaged, "disk"};
    });

    REQUIRE_FALSE(all.has_value());
    CHECK(all.error().context == "disk");
    CHECK(pieces == 1);
}

TEST_CASE("a file cut at any byte is known to be cut short") {
    const auto whole = encoded(a_checkpoint());

    for (std::size_t size = 0; size < whole.size(); ++size) {
        CAPTURE(size);
        CHECK(
            refused(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))) ==
            Fault::cut_short);
    }
}

TEST_CASE("any changed byte is noticed") {
    const auto whole = encoded(a_checkpoint());

    for (std::size_t place = 0; place < whole.size(); ++place)
        for (const auto change : {std::byte{1}, std::byte{0x80}, std::byte{0xFF}}) {
            auto bytes = whole;
            bytes[place] ^= change;
            CAPTURE(place);
            CHECK(refused(bytes));
        }
}

TEST_CASE("other files are distinguished from damaged ones") {
    auto bytes = encoded(a_checkpoint());
    bytes.push_back(std::byte{0});
    CHECK(refused(bytes) == Fault::malformed);

    Bytes text;
    append(text, "#!/bin/sh\necho a text that is long enough to have a header\n");
    CHECK(refused(text) == Fault::not_a_checkpoint);

    auto later = encoded(a_checkpoint());
    later[8] = std::byte{3};
    CHECK(refused(later) == Fault::later_version);
}

TEST_CASE("bytes with a good checksum and anything inside give a checkpoint or a reason") {
    auto of_version_2 = a_checkpoint();
    of_version_2.add("half", {2}, std::vector<Float16>{Float16(1), Float16(2)});
    of_version_2.tensors[0].part = {7, 20};
    const std::array versions{encoded(a_checkpoint()), encoded(of_version_2)};
    std::mt19937 random{7};
    for (std::size_t round = 0; round < 6000; ++round) {
        const auto& whole = versions[round % versions.size()];
        Bytes bytes(whole.begin(), whole.end() - 4);
        for (int changes = 0; changes < 3; ++changes)
            bytes[preamble_bytes + random() % (bytes.size() - preamble_bytes)] =
                static_cast<std::byte>(random() % 4 == 0 ? 0xFF : random() % 8);

        const auto decoded = decode(with_checksum(bytes));
        const auto checked =
            decode(with_checksum(bytes), {{}, true, [](const PartHeader& part) {
                                              CHECK(part.count <= part.part.whole_count);
                                              return PartRange{};
                                          }});

        CHECK(checked.has_value() == decoded.has_value());
        if (decoded)
            CHECK(check(*decoded).has_value());
        else
            CHECK(decoded.error().code == Fault::malformed);
    }
}

TEST_CASE("values go into their targets, and the rest is returned") {
    std::vector<float> weight(6);
    const std::vector<TensorTarget> targets{{"weight", weight.data(), weight.size()}};

    const auto rest = decode(encoded(a_checkpoint()), {targets}).value();

    CHECK(weight == std::vector<float>{1, -2, 3.5F, 0, -0.0F, 1e-30F});
    CHECK(rest.find("weight") == nullptr);
    CHECK(rest.integer("consumed") == -5);
    CHECK(rest.tensors.size() == 3);
}

TEST_CASE("a checkpoint that does not fit its targets is refused in words") {
    const auto bytes = encoded(a_checkpoint());
    std::vector<float> memory(6, 7);
    const auto refusal = [&](const std::string& name, std::size_t count) {
        const std::vector<TensorTarget> targets{{name, memory.data(), count}};
        const auto decoded = decode(bytes, {targets, true});
        REQUIRE(!decoded);
        CHECK(decoded.error().code == Fault::unfit);
        return decoded.error().context;
    };

    CHECK(refusal("weight", 5) == "tensor 'weight' has 6 values, expected are 5");
    CHECK(refusal("moments", 2) == "tensor 'moments' is not of type float");
    CHECK(refusal("bias", 2) == "it has no tensor 'bias'");
    CHECK(memory == std::vector<float>(6, 7));
}

TEST_CASE("a check notices any changed byte, and writes nothing") {
    const auto whole = encoded(a_checkpoint());
    std::vector<float> weight(6, 7);
    const std::vector<TensorTarget> targets{{"weight", weight.data(), weight.size()}};
    CHECK(decode(whole, {targets, true}).has_value());
    for (std::size_t at = preamble_bytes; at < whole.size(); ++at) {
        auto bytes = whole;
        bytes[at] ^= std::byte{0x10};
        const auto decoded = decode(bytes, {targets, true});
        REQUIRE(!decoded);
        CHECK(decoded.error().code == Fault::damaged);
    }
    CHECK(weight == std::vector<float>(6, 7));
}

TEST_CASE("the first error of the source ends the decoding") {
    const auto whole = encoded(a_checkpoint());
    for (std::size_t readable = 0; readable < whole.size(); ++readable) {
        std::size_t at = 0;
        const Source source = [&](std::span<std::byte> target) -> Result<> {
            if (at + target.size() > readable) return Failure{system_code(5), "here"};
            std::copy_n(
                whole.begin() + static_cast<std::ptrdiff_t>(at), target.size(), target.begin());
            at += target.size();
            return {};
        };
        const auto decoded = decode(source, whole.size());
        REQUIRE(!decoded);
        CHECK(decoded.error().context == "here");
    }
}

TEST_CASE("what could not be read again is not written") {
    const auto refusal = [](auto change) {
        auto checkpoint = a_checkpoint();
        change(checkpoint);
        const auto valid = check(checkpoint);
        return valid ? std::string{} : valid.error().context;
    };

    CHECK(refusal([](Checkpoint& c) { c.add("weight", 1.0); }) == "tensor 'weight' comes twice");
    CHECK(refusal([](Checkpoint& c) {
              c.add_view("weight", nullptr, 0);
          }) == "tensor 'weight' comes twice");
    CHECK(refusal([](Checkpoint& c) {
              c.round = Checkpoint{}.round;
          }) == "it has no round: call CheckpointRound::write_to, or set its round");
    CHECK(refusal([](Checkpoint& c) {
              c.tensors[0].shape = {7};
          }) == "tensor 'weight' has 6 values, which does not match its shape");
    CHECK(refusal([](Checkpoint& c) {
              c.tensors[0].shape = {std::uint64_t{1} << 63, 2, 0};
          }) != "");
    CHECK(refusal([](Checkpoint& c) {
              c.texts["x"] = std::string(max_text_bytes + 1, 'x');
          }) == "text 'x' is too long");
    CHECK(refusal([](Checkpoint& c) { c.add("", 1.0); }) == "a name is empty");
}
