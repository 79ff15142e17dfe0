// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/encoder.hpp"

#include "tests/support/bytes.hpp"

#include <doctest/doctest.h>

using namespace ddprun::wire;

namespace {

template <class Message>
std::string hex_of(const Message& message) {
    std::string bytes;
    encode(message, bytes);
    return ddprun::test::to_hex(bytes);
}

}  // namespace

TEST_CASE("each request is its opcode and its fields") {
    const std::string k = "02 00 00 00 00 00 00 00 2f 6b";
    const std::string v = "01 00 00 00 00 00 00 00 76";
    const std::string one = "01 00 00 00 00 00 00 00";
    CHECK(hex_of(Request{Validate{}}) == "00 ce f7 85 3c");
    CHECK(hex_of(Request{Set{"/k", "v"}}) == "01 " + k + " " + v);
    CHECK(hex_of(Request{CompareSet{"/k", "v", "v"}}) == "02 " + k + " " + v + " " + v);
    CHECK(hex_of(Request{Get{"/k"}}) == "03 " + k);
    CHECK(hex_of(Request{Add{"/k", -2}}) == "04 " + k + " fe ff ff ff ff ff ff ff");
    CHECK(hex_of(Request{Check{{"/k"}}}) == "05 " + one + " " + k);
    CHECK(hex_of(Request{Wait{{"/k"}}}) == "06 " + one + " " + k);
    CHECK(hex_of(Request{NumKeys{}}) == "07");
    CHECK(hex_of(Request{DeleteKey{"/k"}}) == "08 " + k);
    CHECK(hex_of(Request{Append{"/k", "v"}}) == "09 " + k + " " + v);
    CHECK(hex_of(Request{MultiGet{{"/k"}}}) == "0a " + one + " " + k);
    CHECK(hex_of(Request{MultiSet{{{"/k", "v"}}}}) == "0b " + one + " " + k + " " + v);
    CHECK(hex_of(Request{CancelWait{}}) == "0c");
    CHECK(hex_of(Request{Ping{4242}}) == "0d 92 10 00 00");
    CHECK(hex_of(Request{QueuePush{"/k", "v"}}) == "0e " + k + " " + v);
    CHECK(hex_of(Request{QueuePop{"/k"}}) == "0f " + k);
    CHECK(hex_of(Request{QueueLen{"/k"}}) == "10 " + k);
    CHECK(hex_of(Request{ListKeys{}}) == "11");
    CHECK(hex_of(Request{Barrier{"/k", 1}}) == "12 " + k + " " + one);
}

TEST_CASE("a reply is its fields alone") {
    CHECK(hex_of(Reply{Values{{"v", ""}}}) == "01 00 00 00 00 00 00 00 76 00 00 00 00 00 00 00 00");
    CHECK(hex_of(Reply{Checked{true}}) == "00");
    CHECK(hex_of(Reply{Checked{false}}) == "01");
    CHECK(hex_of(Reply{StopWaiting{}}) == "00");
    CHECK(hex_of(Reply{WaitCanceled{}}) == "01");
    CHECK(hex_of(Reply{Popped{0, {}}}) == "00 00 00 00 00 00 00 00");
}
