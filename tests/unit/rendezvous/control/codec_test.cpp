// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/codec.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/control/error.hpp"
#include "rendezvous/control/escaped.hpp"
#include "rendezvous/control/text.hpp"
#include "tests/unit/rendezvous/control/samples.hpp"
#include "worker_sdk/src/sanitizers.hpp"

#include <doctest/doctest.h>

#include <iterator>
#include <map>
#include <set>

using namespace ddprun;
using namespace ddprun::control;

namespace {

std::string framed(std::string_view json) {
    std::string frame(4, '\0');
    for (std::size_t i = 0; i < 4; ++i)
        frame[i] = static_cast<char>(json.size() >> (8 * (3 - i)) & 0xFFU);
    return frame + std::string{json};
}

template <class Message>
Result<std::optional<Message>> decoded(std::string_view bytes) {
    FrameDecoder<Message> decoder;
    decoder.append(bytes);
    return decoder.next();
}

/// The server's result for this JSON as an agent's message: "ok", or code and context.
std::string verdict(std::string_view json) {
    const auto result = decoded<AgentMessage>(framed(json));
    if (!result) return result.error().code.message() + " | " + result.error().context;
    return *result ? "ok" : "nothing yet";
}

/// The join sample as JSON with one piece of its text replaced.
std::string join_with(std::string_view piece, std::string_view replacement) {
    auto json = encode(AgentMessage{samples::a_join()}).substr(4);
    const auto at = json.find(piece);
    REQUIRE(at != std::string::npos);
    return json.replace(at, piece.size(), replacement);
}

template <class Message>
void check_round_trip(const std::vector<Message>& messages) {
    std::set<std::size_t> types;
    for (const auto& message : messages) {
        CAPTURE(describe(message));
        const auto frame = encode(message);
        const auto back = decoded<Message>(frame);
        REQUIRE(back.has_value());
        REQUIRE(back->has_value());
        CHECK(**back == message);
        CHECK(encode(**back) == frame);
        types.insert(message.index());
    }
    CHECK(types.size() == std::variant_size_v<Message>);
}

template <class Message>
void check_every_split_of(const std::vector<Message>& messages) {
    std::string bytes;
    for (const auto& message : messages)
        bytes += encode(message);
    for (std::size_t split = 0; split <= bytes.size(); ++split) {
        FrameDecoder<Message> decoder;
        std::vector<Message> got;
        for (const auto part :
             {std::string_view{bytes}.substr(0, split), std::string_view{bytes}.substr(split)}) {
            decoder.append(part);
            for (;;) {
                const auto next = decoder.next();
                REQUIRE(next.has_value());
                if (!*next) break;
                got.push_back(**next);
            }
        }
        REQUIRE(got == messages);
    }
}

/// The shortest message and one of 200 bytes, or the longest one, in each order: what a message
/// says does not matter to a split. Each one arrives in single bytes below.
template <class Message>
void check_every_split(const std::vector<Message>& messages) {
    std::map<std::size_t, const Message*> by_size;
    for (const auto& message : messages)
        by_size[encode(message).size()] = &message;
    const auto& shortest = *by_size.begin()->second;
    const auto at_least = by_size.lower_bound(200);
    const auto& longer = *(at_least == by_size.end() ? std::prev(at_least) : at_least)->second;
    REQUIRE(by_size.size() > 1);
    check_every_split_of<Message>({shortest, longer});
    check_every_split_of<Message>({longer, shortest});
}

template <class Message>
void check_single_bytes(const std::vector<Message>& messages) {
    FrameDecoder<Message> decoder;
    std::vector<Message> got;
    for (const auto& message : messages) {
        for (const char byte : encode(message)) {
            decoder.append({&byte, 1});
            const auto next = decoder.next();
            REQUIRE(next.has_value());
            if (*next) got.push_back(**next);
        }
    }
    CHECK(got == messages);
}

}  // namespace

TEST_CASE("every control message comes back as it was, and as the same bytes") {
    check_round_trip(samples::agent_messages());
    check_round_trip(samples::server_messages());
    check_round_trip(samples::commands());
    check_round_trip(samples::command_replies());
}

TEST_CASE("control messages arrive whole wherever the bytes are split") {
    check_every_split(samples::agent_messages());
    check_every_split(samples::server_messages());
    check_every_split(samples::commands());
    check_every_split(samples::command_replies());
}

TEST_CASE("control messages arrive byte by byte") {
    check_single_bytes(samples::agent_messages());
    check_single_bytes(samples::server_messages());
    check_single_bytes(samples::commands());
    check_single_bytes(samples::command_replies());
}

TEST_CASE("a heartbeat is these bytes") {
    CHECK(
        encode(AgentMessage{Heartbeat{7}}) ==
        std::string{"\0\0\0\x1c", 4} + R"({"type":"heartbeat","seq":7})");
}

TEST_CASE("random bytes give a message, nothing yet, or an error") {
    Random random{7};
    const auto messages = samples::agent_messages();
    constexpr int tries = is_sanitized ? 4'000 : 20'000;
    for (int i = 0; i < tries; ++i) {
        auto frame = encode(messages[random() % messages.size()]);
        for (auto changes = random() % 4; changes > 0; --changes)
            frame[4 + random() % (frame.size() - 4)] = static_cast<char>(random());
        const auto result = decoded<AgentMessage>(frame);
        if (!result || !*result) continue;
        // An accepted message can be encoded again with the same meaning.
        const auto again = encode(**result);
        const auto back = decoded<AgentMessage>(again);
        REQUIRE(back.has_value());
        REQUIRE(back->has_value());
        CHECK(encode(**back) == again);
    }
    for (int i = 0; i < 2'000; ++i) {
        std::string noise(random() % 64, '\0');
        for (auto& byte : noise)
            byte = static_cast<char>(random());
        (void)decoded<AgentMessage>(noise).has_value();
        (void)decoded<ServerMessage>(framed(noise)).has_value();
    }
}

TEST_CASE("a field that is missing, of another kind or out of range is named") {
    CHECK(
        verdict(join_with(R"("nproc":8,)", "")) ==
        "field missing, of the wrong kind or out of "
        "range | join.nproc: an integer from 1 to 4096");
    const auto names = [](const std::string& json, std::string_view field) {
        CAPTURE(json);
        CHECK(verdict(json).find(field) != std::string::npos);
    };
    names(join_with(R"("nproc":8)", R"("nproc":0)"), "join.nproc");
    names(join_with(R"("nproc":8)", R"("nproc":8.0)"), "join.nproc");
    names(join_with(R"("nproc":8)", R"("nproc":18446744073709551615)"), "join.nproc");
    names(join_with(R"("nproc":8)", R"("nproc":"8")"), "join.nproc");
    names(join_with(R"("max":4)", R"("max":0)"), "join.nnodes.max");
    names(join_with(R"("min":2)", R"("min":6)"), "join.nnodes.max");
    names(join_with(R"("min":2)", R"("min":3)"), "join.nnodes.min");
    names(join_with(R"("max":4)", R"("max":5)"), "join.nnodes.max");
    names(join_with(R"("unit":2)", R"("unit":1)"), "join.nnodes.unit");
    names(join_with("abcd", "ABCD"), "join.node.nonce");
    names(join_with(R"("lease":6.000000001)", R"("lease":-1)"), "join.settings.lease");
    names(join_with(R"("lease":6.000000001)", R"("lease":1e300)"), "join.settings.lease");
    names(join_with(R"("run_id":"job-1")", R"("run_id":"")"), "join.run_id");
    names(join_with(R"("late_nodes":"at-restart")", R"("late_nodes":"x")"), "join.settings.late");
    names(
        join_with(R"("role":"trainer")", R"("role":")" + std::string(256, 'x') + '"'), "join.role");
    names(join_with(R"("store_port":20000)", R"("store_port":65536)"), "join.store_port");
    names(R"({"type":"ready","round":0,"store_port":0,"nproc":1})", "ready.store_port");
    names(R"({"type":"leave","reason":1,"signal":0})", "leave.reason");
    names(R"({"type":"heartbeat","seq":-1})", "heartbeat.seq");
}

TEST_CASE("a field that comes twice is refused, wherever it is and however it is spelt") {
    const auto is_refused = [](const std::string& json) {
        CAPTURE(json);
        CHECK(verdict(json).find("comes twice") != std::string::npos);
    };
    is_refused(R"({"type":"succeeded","round":1,"round":2})");
    is_refused(R"({"type":"succeeded","type":"ready","round":1})");
    is_refused(R"({"type":"succeeded","round":1,"ro\u0075nd":2})");
    is_refused(R"({"type":"succeeded","round":1,"mood":[{"a":1,"a":1}]})");
    is_refused(join_with(R"("min":2)", R"("min":2,"min":4)"));
}

TEST_CASE("a frame that holds no message gives the error that says why") {
    CHECK(verdict("") == "not a JSON object | control frame");
    CHECK(verdict("[]") == "not a JSON object | control frame");
    CHECK(verdict(R"({"type":"heartbeat","seq":1)") == "not a JSON object | control frame");
    CHECK(verdict(R"({"type":"heartbeat","seq":1e999})") == "not a JSON object | control frame");
    CHECK(verdict("{}") == "unknown message type | control frame without a type");
    CHECK(verdict(R"({"type":"dance"})") == "unknown message type | dance");
    CHECK(verdict(R"({"type":"welcome"})") == "unknown message type | welcome");
    CHECK(verdict(R"({"type":"succeeded","round":1,"mood":"fine"})") == "ok");
    CHECK(verdict(R"({"type":"succeeded","round":1,"mood":"a:b, \"c\":d"})") == "ok");
}

TEST_CASE("JSON may be sixteen deep and no deeper, and a bracket in a text is no depth") {
    const auto nested = [](std::size_t depth) {
        return R"({"type":"succeeded","round":1,"x":)" + std::string(depth, '[') +
               std::string(depth, ']') + "}";
    };
    CHECK(verdict(nested(15)) == "ok");
    CHECK(verdict(nested(16)) == "JSON nested too deeply | control frame");
    CHECK(verdict(nested(30'000)) == "JSON nested too deeply | control frame");
    CHECK(
        verdict(R"({"type":"succeeded","round":1,"x":"\")" + std::string(40, '[') + R"("})") ==
        "ok");
}

TEST_CASE("a frame that is too long is refused before it arrives") {
    CHECK_FALSE(decoded<AgentMessage>(std::string{"\0\1\0\1", 4}).has_value());
    CHECK(decoded<AgentMessage>(std::string{"\0\1\0\0", 4}).has_value());
    const auto long_join =
        join_with("{\"type", "{\"x\":\"" + std::string(5'000, 'x') + "\",\"type");
    CHECK(verdict(long_join) == "frame too long | join");
}

TEST_CASE("a decoder that had a long frame keeps no memory of it") {
    AgentMessageDecoder decoder;
    const auto frame = encode(AgentMessage{Heartbeat{1}});
    decoder.append(framed(frame.substr(4) + std::string(50'000, ' ')));
    CHECK(decoder.held_bytes() > 50'000);
    const auto message = decoder.next();
    REQUIRE(message.has_value());
    CHECK(message->has_value());
    CHECK(decoder.held_bytes() < 1'000);
}

TEST_CASE("after an error the decoder does not go on with the next frame") {
    AgentMessageDecoder decoder;
    decoder.append(framed("{}") + encode(AgentMessage{Heartbeat{1}}));
    const auto first = decoder.next();
    const auto second = decoder.next();
    REQUIRE_FALSE(first.has_value());
    REQUIRE_FALSE(second.has_value());
    CHECK(first.error() == second.error());
}

TEST_CASE("all free text of a message together is bounded after escaping") {
    auto failure = samples::a_failure();
    failure.message = "short";
    failure.why.clear();
    failure.error_file.clear();
    failure.log_file.clear();
    failure.details = std::string(50'000, '\n');
    const auto frame = encode(AgentMessage{Failed{1, {}, failure, std::nullopt}});
    CHECK(frame.size() < limits::max_free_text_bytes + 512);
    const auto back = decoded<AgentMessage>(frame);
    REQUIRE(back.has_value());
    const auto& got = std::get<Failed>(**back).failure;
    CHECK(got.message == "short");
    CHECK(got.details.size() == (limits::max_free_text_bytes - 5) / 2);
}

TEST_CASE("escaped text is as long as allowed, and never breaks an escape") {
    CHECK(escaped("plain text", 100) == "plain text");
    CHECK(escaped("a\nb", 2) == "a");
    CHECK(escaped("a\nb", 3) == "a\\n");
    CHECK(escaped("a\nb", 4) == "a\\nb");
    CHECK(escaped("abcdef", 4) == "abcd");
    CHECK(escaped("\x01", 5).empty());
    CHECK(escaped("\x01", 6) == "\\u0001");
    CHECK(escaped("\"", 0).empty());
    for (std::size_t most = 0; most < 40; ++most) {
        // Wherever it is cut, the result is a prefix of the whole.
        const std::string text = "ab\"\xC3\xBC\xE2\x82\xAC\x02\xF0\x9F\x98\x80\n\xFF\xF0\x9F\x98";
        const auto cut = escaped(text, most);
        CAPTURE(most);
        CHECK(cut.size() <= most);
        CHECK(escaped(text, 100).starts_with(cut));
    }
}

TEST_CASE("a reader cuts the text of a message that its writer has not cut") {
    const std::string start =
        R"({"type":"notice","signal":15,"left":1,"ends_job":false,"reason":")";
    const auto message = decoded<AgentMessage>(framed(start + std::string(60'000, 'x') + "\"}"));
    REQUIRE(message.has_value());
    CHECK(std::get<Notice>(**message).reason.size() == limits::max_free_text_bytes);
}

TEST_CASE("what is not UTF-8 is replaced, and a cut never splits a character") {
    CHECK(escaped("a\xFF\xC3(b", 100) == "a\xEF\xBF\xBD\xEF\xBF\xBD(b");
    CHECK(escaped("\xED\xA0\x80", 100) == "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    CHECK(escaped("\xF0\x9F\x98\x80", 100) == "\xF0\x9F\x98\x80");
    CHECK(escaped("x\xC3\xBC", 2) == "x");
    CHECK(escaped("x\n", 2) == "x");
    CHECK(escaped(std::string_view{"\0\x1f\x7f", 3}, 100) == "\\u0000\\u001f\x7f");

    const auto frame = encode(ServerMessage{ProtocolError{"\xC0\xAF\x80"}});
    CHECK(decoded<ServerMessage>(frame).has_value());
}

TEST_CASE("ends of workers read as words") {
    using Kind = WorkerEnd::Kind;
    CHECK(describe(WorkerEnd{Kind::exited, 3, false}) == "exited with code 3");
    CHECK(describe(WorkerEnd{Kind::killed, 11, true}) == "killed by SIGSEGV (core dumped)");
    CHECK(
        describe(WorkerEnd{Kind::not_executed, 2, false}) ==
        "could not be started: No such file or directory");
    CHECK(describe(WorkerEnd{Kind::not_executed, -5, false}) == "could not be started: error -5");
    CHECK(describe(NodeRange{1, 4, 2}) == "1:4+2");
    for (const auto& message : samples::agent_messages())
        CHECK_FALSE(describe(message).empty());
    for (const auto& message : samples::server_messages())
        CHECK_FALSE(describe(message).empty());
}
