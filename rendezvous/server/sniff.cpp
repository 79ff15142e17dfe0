// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/sniff.hpp"

#include "rendezvous/base/limits.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace ddprun::server {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view c10d_magic = "\x00\xCE\xF7\x85\x3C"sv;
constexpr std::string_view big_endian_c10d_magic = "\x00\x3C\x85\xF7\xCE"sv;
constexpr std::string_view control_word = "DDPRUN/";
/// The first bytes of voters::vote_protocol.
constexpr std::string_view vote_word = "ddprun-v";
/// GET and HEAD are answered with a page, other methods with an error and its reason.
constexpr std::array http_methods = {
    "GET "sv, "HEAD "sv, "POST "sv, "PUT "sv, "DELETE "sv, "OPTIONS "sv, "PATCH "sv};
constexpr std::string_view tls_record = "\x16\x03"sv;

/// The match of one pattern with the bytes so far.
enum class Fit : std::uint8_t { no, so_far, whole };

Fit fit(std::string_view bytes, std::string_view pattern) {
    const auto common = std::min(bytes.size(), pattern.size());
    if (bytes.substr(0, common) != pattern.substr(0, common)) return Fit::no;
    return common == pattern.size() ? Fit::whole : Fit::so_far;
}

/// Before 2.2 a request began at once: an opcode (SET = 0 to CANCEL_WAIT = 11) and the length of a
/// key or a count of keys, which are small in practice. In other data these bytes are usually a
/// huge number.
Fit fit_older_c10d(std::string_view bytes) {
    constexpr unsigned char last_opcode = 0x0B;
    constexpr std::size_t header_bytes = 9;
    if (bytes.empty()) return Fit::so_far;
    if (static_cast<unsigned char>(bytes.front()) > last_opcode) return Fit::no;
    if (bytes.size() < header_bytes) return Fit::so_far;
    std::uint64_t length = 0;
    for (std::size_t i = header_bytes; i > 1; --i)
        length = length << 8 | static_cast<unsigned char>(bytes[i - 1]);
    return length <= limits::max_key_count ? Fit::whole : Fit::no;
}

/// GETNUMKEYS and CANCEL_WAIT of PyTorch 2.1 have a single byte: the client sends nothing more
/// before the answer, and any further byte belongs to another request.
bool begins_with_short_older_c10d(std::string_view bytes) {
    return bytes.starts_with('\x06') || bytes.starts_with('\x0B');
}

}  // namespace

Caller sniff(std::string_view bytes, wire::Accepted accepted) {
    const bool has_older = accepted == wire::Accepted::legacy_too;
    if (has_older && begins_with_short_older_c10d(bytes)) return Caller::c10d;
    bool may_become_one = false;
    const auto is = [&](Fit how) {
        may_become_one = may_become_one || how == Fit::so_far;
        return how == Fit::whole;
    };
    if (is(fit(bytes, c10d_magic))) return Caller::c10d;
    if (is(fit(bytes, control_word)) || is(fit(bytes, vote_word))) return Caller::control;
    for (const auto method : http_methods)
        if (is(fit(bytes, method))) return Caller::http;
    if (is(fit(bytes, big_endian_c10d_magic))) return Caller::big_endian_c10d;
    if (is(fit(bytes, tls_record))) return Caller::tls;
    if (is(fit_older_c10d(bytes))) return has_older ? Caller::c10d : Caller::older_c10d;
    return may_become_one ? Caller::need_more : Caller::unknown;
}

std::string_view describe(Caller caller) {
    switch (caller) {
        case Caller::need_more: return "a caller that said nothing";
        case Caller::c10d: return "a PyTorch store client";
        case Caller::control: return "an agent";
        case Caller::http: return "an HTTP client";
        case Caller::older_c10d: return "a PyTorch client older than 2.2";
        case Caller::big_endian_c10d: return "a PyTorch client on a big-endian machine";
        case Caller::tls: return "a TLS client, as a node with a secret is: this server has none";
        case Caller::unknown: return "something that speaks none of our protocols";
    }
    return "?";
}

Result<std::optional<Preamble>> read_preamble(std::string_view bytes) {
    const Failure wrong{
        make_error_code(boost::system::errc::protocol_error), "no control preamble"};
    const auto word = fit(bytes, control_word);
    if (word == Fit::no) return wrong;
    const auto end = bytes.find('\n');
    if (end == std::string_view::npos) {
        if (bytes.size() >= limits::max_preamble_bytes) return wrong;
        return std::optional<Preamble>{};
    }
    Preamble preamble{0, end + 1};
    if (word != Fit::whole || preamble.length > limits::max_preamble_bytes) return wrong;
    const auto* first = bytes.data() + control_word.size();
    const auto* last = bytes.data() + end;
    const auto [rest, error] = std::from_chars(first, last, preamble.version);
    if (error != std::errc{} || rest != last || preamble.version < 0) return wrong;
    return std::optional{preamble};
}

}  // namespace ddprun::server
