// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/decoder.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/wire/encoder.hpp"
#include "rendezvous/wire/error.hpp"
#include "rendezvous/wire/text.hpp"
#include "tests/support/bytes.hpp"
#include "tests/support/samples.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace ddprun;
using namespace ddprun::wire;
using ddprun::test::from_hex;

namespace {

using Requests = std::vector<Request>;

std::string encoded(const Request& request) {
    std::string bytes;
    encode(request, bytes);
    return bytes;
}

std::string greeting() {
    return encoded(Validate{});
}

/// Reads everything the decoder has now; the text of the error at the end, if any.
std::string take(Decoder& decoder, Requests& requests) {
    for (;;) {
        Request request;
        const auto has_request = decoder.next(request);
        if (!has_request) return has_request.error().code.message();
        if (!*has_request) return {};
        requests.push_back(std::move(request));
    }
}

struct Decoded {
    Requests requests;
    std::string error;
    bool operator==(const Decoded&) const = default;
};

Decoded decode(const std::vector<std::string>& pieces, Accepted accepted = Accepted::current) {
    Decoder decoder(accepted);
    Decoded result;
    for (const auto& piece : pieces) {
        decoder.append(piece);
        result.error = take(decoder, result.requests);
    }
    return result;
}

std::vector<std::string> one_by_one(const std::string& bytes) {
    std::vector<std::string> pieces;
    for (const char c : bytes)
        pieces.emplace_back(1, c);
    return pieces;
}

error_code error_of(const std::string& bytes, Accepted accepted = Accepted::current) {
    Decoder decoder(accepted);
    decoder.append(bytes);
    for (;;) {
        Request request;
        const auto has_request = decoder.next(request);
        if (!has_request) return has_request.error().code;
        if (!*has_request) return {};
    }
}

std::string length(std::uint64_t value) {
    std::string bytes;
    for (int i = 0; i < 8; ++i)
        bytes += static_cast<char>(value >> (8 * i) & 0xff);
    return bytes;
}

std::string opcode(Query query) {
    return std::string(1, static_cast<char>(query));
}

}  // namespace

TEST_CASE("every kind of request has a sample") {
    std::set<Query> seen{Query::validate};
    for (const auto& request : test::sample_requests())
        seen.insert(query_of(request));
    CHECK(seen.size() == query_count);
}

TEST_CASE("requests come out of their own bytes, alone and one after another") {
    std::string all = greeting();
    Requests expected{Validate{}};
    for (const auto& request : test::sample_requests()) {
        CAPTURE(describe(request));
        const auto alone = decode({greeting() + encoded(request)});
        CHECK(alone.error == "");
        CHECK(alone.requests == Requests{Validate{}, request});
        all += encoded(request);
        expected.push_back(request);
    }
    CHECK(decode({all}) == Decoded{expected, ""});
    CHECK(decode(one_by_one(all)) == Decoded{expected, ""});
}

TEST_CASE("a stream may be cut at any byte") {
    std::string all = greeting();
    for (const auto& request : test::sample_requests())
        all += encoded(request);
    const auto whole = decode({all});

    for (std::size_t cut = 0; cut <= all.size(); ++cut) {
        CAPTURE(cut);
        CHECK(decode({all.substr(0, cut), all.substr(cut)}) == whole);
    }
}

TEST_CASE("a request is not seen before its last byte") {
    for (const auto& request : test::sample_requests()) {
        CAPTURE(describe(request));
        auto bytes = greeting() + encoded(request);
        bytes.pop_back();
        CHECK(decode({bytes}).requests.size() == 1);
    }
}

TEST_CASE("the first bytes show a peer that is no store client") {
    CHECK(error_of(from_hex("00 3c 85 f7 ce")) == Error::big_endian_client);
    CHECK(error_of(from_hex("04 05")) == Error::older_client);
    CHECK(error_of(from_hex("00 05 00 00 00 00 00 00 00 69")) == Error::older_client);
    CHECK(error_of(from_hex("00 de ad be ef")) == Error::wrong_magic);
    CHECK(error_of("GET / HTTP/1.1\r\n") == Error::not_a_store_client);
    CHECK(error_of(from_hex("16 03 01")) == Error::not_a_store_client);
    CHECK(error_of(from_hex("0d 92 10 00 00")) == Error::not_a_store_client);
    CHECK(error_of(from_hex("00 ce f7 85")) == error_code{});
}

TEST_CASE(
    "the requests of PyTorch 2.1 are decoded where they are accepted, alone and in one stream") {
    std::set<Query> seen;
    std::string all;
    Requests expected;
    for (const auto& request : test::sample_requests()) {
        const auto query = query_of(request);
        if (query > Query::cancel_wait) continue;
        seen.insert(query);
        CAPTURE(describe(request));
        auto bytes = encoded(request);
        --bytes.front();
        CHECK(decode({bytes}, Accepted::legacy_too) == Decoded{{request}, ""});
        CHECK(decode(one_by_one(bytes), Accepted::legacy_too) == Decoded{{request}, ""});
        CHECK(
            error_of(bytes.front() == 0 ? bytes.substr(0, 5) : bytes.substr(0, 1)) ==
            Error::older_client);
        all += bytes;
        expected.push_back(request);
    }
    CHECK(seen.size() == legacy_query_count);
    CHECK(decode({all}, Accepted::legacy_too) == Decoded{expected, ""});
    CHECK(decode(one_by_one(all), Accepted::legacy_too) == Decoded{expected, ""});
}

TEST_CASE("the first request decides by which numbers a connection speaks, and no later one") {
    const auto accepting = [](const std::string& bytes) {
        return error_of(bytes, Accepted::legacy_too);
    };
    // Nothing changes for a current client.
    std::string all = greeting();
    Requests expected{Validate{}};
    for (const auto& request : test::sample_requests()) {
        all += encoded(request);
        expected.push_back(request);
    }
    CHECK(decode({all}, Accepted::legacy_too) == Decoded{expected, ""});
    CHECK(decode(one_by_one(all), Accepted::legacy_too) == Decoded{expected, ""});
    CHECK(accepting(greeting() + greeting()) == Error::repeated_validate);
    // The magic is far above the length of a key.
    CHECK(decode({from_hex("00 ce f7 85")}, Accepted::legacy_too) == Decoded{});
    const Set longest{std::string(limits::max_key_bytes, 'k'), ""};
    auto bytes = encoded(longest);
    --bytes.front();
    CHECK(decode({bytes}, Accepted::legacy_too) == Decoded{{longest}, ""});
    CHECK(accepting(from_hex("00 01 20 00 00 00 00 00 00")) == Error::wrong_magic);
    CHECK(accepting(from_hex("00 05 00 00 00 01 00 00 00")) == Error::key_too_long);
    CHECK(accepting(from_hex("00 3c 85 f7 ce")) == Error::big_endian_client);
    CHECK(accepting(from_hex("00 de ad be ef")) == Error::wrong_magic);
    CHECK(accepting(from_hex("0c")) == Error::not_a_store_client);
    CHECK(accepting("GET / HTTP/1.1\r\n") == Error::not_a_store_client);
    // GETNUMKEYS, then what 2.1 does not have.
    CHECK(decode({from_hex("06 0c")}, Accepted::legacy_too).requests == Requests{NumKeys{}});
    CHECK(accepting(from_hex("06 0c")) == Error::unknown_query);
}

TEST_CASE("the greeting comes once, and later opcodes are known ones") {
    Decoder decoder;
    CHECK_FALSE(decoder.has_greeted());
    Request request;
    decoder.append(greeting());
    REQUIRE(decoder.next(request).has_value());
    CHECK(decoder.has_greeted());
    CHECK(error_of(greeting() + greeting()) == Error::repeated_validate);
    CHECK(error_of(greeting() + from_hex("13")) == Error::unknown_query);
    CHECK(error_of(greeting() + from_hex("63")) == Error::unknown_query);
    CHECK(error_of(greeting() + from_hex("ff")) == Error::unknown_query);
}

TEST_CASE("lengths at the limit are accepted, one more is an error before its bytes arrive") {
    const Set largest{
        std::string(limits::max_key_bytes, 'k'), std::string(limits::max_value_bytes, 'v')};
    CHECK(decode({greeting() + encoded(largest)}).requests == Requests{Validate{}, largest});

    const auto key = length(1) + "k";
    const auto too_long_key = length(limits::max_key_bytes + 1);
    const auto too_long_value = length(limits::max_value_bytes + 1);
    CHECK(error_of(greeting() + opcode(Query::get) + too_long_key) == Error::key_too_long);
    CHECK(
        error_of(greeting() + opcode(Query::set) + key + too_long_value) == Error::value_too_long);
    CHECK(
        error_of(greeting() + opcode(Query::compare_set) + key + too_long_value) ==
        Error::value_too_long);
    CHECK(
        error_of(greeting() + opcode(Query::wait) + length(1) + too_long_key) ==
        Error::key_too_long);
    CHECK(
        error_of(greeting() + opcode(Query::check) + length(limits::max_key_count + 1)) ==
        Error::too_many_keys);
    CHECK(error_of(greeting() + opcode(Query::multi_set) + length(~0ULL)) == Error::too_many_keys);
    CHECK(error_of(greeting() + opcode(Query::get) + length(~0ULL)) == Error::key_too_long);
}

TEST_CASE("a request of as many keys as are allowed is accepted") {
    Wait largest;
    for (std::size_t i = 0; i < limits::max_key_count; ++i)
        largest.keys.push_back(std::to_string(i));
    CHECK(decode({greeting() + encoded(largest)}).requests == Requests{Validate{}, largest});
}

TEST_CASE("an error is final") {
    Decoder decoder;
    Request request;
    decoder.append(greeting() + from_hex("63") + encoded(Ping{1}));
    REQUIRE(decoder.next(request).has_value());
    CHECK(decoder.next(request).error().code == Error::unknown_query);
    decoder.append(encoded(Ping{1}));
    CHECK(decoder.next(request).error().code == Error::unknown_query);
}

TEST_CASE("a request in many pieces costs no more than its bytes") {
    // Quadratic work over these would take minutes.
    constexpr int key_count = 20'000;
    Decoder decoder;
    decoder.append(greeting());
    Requests requests;
    take(decoder, requests);
    Wait many;
    for (int i = 0; i < key_count; ++i)
        many.keys.push_back("/key/" + std::to_string(i));
    for (const auto& piece : one_by_one(encoded(many))) {
        decoder.append(piece);
        take(decoder, requests);
    }
    CHECK(requests == Requests{Validate{}, many});
}
