// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/voters/vote.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

/// The protocol `ddprun-vote/1`: a line of JSON for each request and answer (FORMAT.md).
namespace ddprun::voters {

/// The begin of the line of a request on a peer port. The answer's line has none.
inline constexpr std::string_view vote_protocol = "ddprun-vote/1 ";
/// The answer of a process without a voter, which is no message.
inline constexpr std::string_view no_voter_line = "no voter\n";

/// Asks a witness under which nonce it votes about this record. Answered by `encode_identity`, or
/// by `no_room_line`.
struct Identify {
    std::string job;
    Nonce lineage;
    bool operator==(const Identify&) const = default;
};
inline constexpr std::string_view no_room_line = "too many jobs have this witness\n";
std::string encode(const Identify& request);
/// None: the line is another request.
std::optional<Identify> identify_in(std::string_view line);
std::string encode_identity(const Nonce& voter);
/// None: the line is another one.
std::optional<Nonce> identity_in(std::string_view line);

/// One line, with the line feed.
std::string encode(const Request& request);
std::string encode(const Answer& answer);

/// Takes bytes in arbitrary pieces and returns whole messages.
///
/// `next` has three results: a message, nothing yet, or an error (control/error.hpp) after which
/// the connection must be closed.
template <class Message>
class LineDecoder {
public:
    void append(std::string_view bytes) { buffer_ += bytes; }
    Result<std::optional<Message>> next();

private:
    std::string buffer_;
    std::size_t consumed_ = 0;
};

/// The message of one line, with its line feed or without; none: it is not valid.
template <class Message>
std::optional<Message> message_of(std::string_view line) {
    LineDecoder<Message> decoder;
    decoder.append(line);
    if (!line.ends_with('\n')) decoder.append("\n");
    auto message = decoder.next();
    return message ? std::move(*message) : std::nullopt;
}

using RequestDecoder = LineDecoder<Request>;  ///< the voter's side
using AnswerDecoder = LineDecoder<Answer>;    ///< the proposer's side

}  // namespace ddprun::voters
