// SPDX-License-Identifier: Apache-2.0
// Any bytes on the rendezvous port: the caller's protocol is decided once and for all, an HTTP head
// and a preamble read the same however they arrive, and frames give the same messages when split.
#include "rendezvous/base/machine.hpp"
#include "rendezvous/control/codec.hpp"
#include "rendezvous/server/http_status.hpp"
#include "rendezvous/server/sniff.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace {

using namespace ddprun;

void check_sniff(std::string_view bytes, wire::Accepted accepted) {
    const auto whole = server::sniff(bytes, accepted);
    for (std::size_t length = 0; length <= std::min<std::size_t>(bytes.size(), 16); ++length) {
        const auto early = server::sniff(bytes.substr(0, length), accepted);
        require(early == server::Caller::need_more || early == whole, "sniff changed its mind");
    }
}

void check_preamble(std::string_view bytes) {
    const auto whole = server::read_preamble(bytes);
    if (!whole || !*whole) return;
    const auto length = (*whole)->length;
    require(length <= bytes.size() && bytes[length - 1] == '\n', "preamble beyond its bytes");
    require(*server::read_preamble(bytes.substr(0, length)) == *whole, "preamble read on");
}

void check_http(std::string_view bytes) {
    const auto head = server::read_http_head(bytes);
    const auto half = server::read_http_head(bytes.substr(0, bytes.size() / 2));
    require(
        half == server::HttpHead{server::HttpNeedsMore{}} || half == head, "head changed later");
    if (const auto* request = std::get_if<server::HttpRequest>(&head)) {
        require(request->path.starts_with('/'), "a path begins with a slash");
        const auto page = server::job_page(*request);
        const auto response = page ? page->finish({}) : server::plain_answer(*request);
        require(server::encode_head(response, "now").ends_with("\r\n\r\n"), "the head has no end");
    }
}

struct Decoded {
    std::vector<control::AgentMessage> messages;
    bool has_failed = false;
    bool operator==(const Decoded&) const = default;
};

void decode(control::AgentMessageDecoder& decoder, Decoded& decoded) {
    while (!decoded.has_failed) {
        auto message = decoder.next();
        if (!message) {
            decoded.has_failed = true;
        } else if (*message) {
            decoded.messages.push_back(std::move(**message));
        } else {
            return;
        }
    }
}

void check_frames(std::string_view bytes) {
    Decoded at_once;
    control::AgentMessageDecoder whole;
    whole.append(bytes);
    decode(whole, at_once);

    Decoded in_pieces;
    control::AgentMessageDecoder split;
    constexpr std::size_t piece = 7;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
        split.append(bytes.substr(at, piece));
        decode(split, in_pieces);
    }
    require(at_once == in_pieces, "a split changed the messages");

    for (const auto& message : at_once.messages) {
        control::AgentMessageDecoder again;
        again.append(control::encode(message));
        const auto echoed = again.next();
        require(echoed && *echoed, "our own frame is not understood");
        require((*echoed)->index() == message.index(), "our own frame became another message");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes{reinterpret_cast<const char*>(data), size};
    check_sniff(bytes, wire::Accepted::current);
    check_sniff(bytes, wire::Accepted::legacy_too);
    check_preamble(bytes);
    check_http(bytes);
    check_frames(bytes);
    return 0;
}
