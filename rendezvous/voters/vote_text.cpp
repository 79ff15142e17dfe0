// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/voters/vote_text.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/control/error.hpp"
#include "rendezvous/control/json_fields.hpp"
#include "rendezvous/control/voter_set_fields.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::voters {

using control::Bytes;
using control::Like;
using control::Name;
using control::voted_number;

namespace {

constexpr Name text{1};

}  // namespace

// The fields of the messages, in the order on the wire.

template <class Io>
void fields(Io& io, Like<Io, Leader>& leader) {
    io("name", leader.name, text);
    io("addr", leader.address, text);
    io("nonce", leader.nonce);
}

template <class Io>
void fields(Io& io, Like<Io, JobRecord>& record) {
    io("lineage", record.lineage);
    io.optional("leader", record.leader);
    io("epoch", record.epoch, voted_number);
    io("ttl", record.ttl);
    io("counter", record.counter, voted_number);
    io("set", record.voters);
    io.optional("ends", record.ends, Bytes{limits::max_end_record_bytes});
}

template <class Io>
void fields(Io& io, Like<Io, Vote>& vote) {
    io("ballot", vote.ballot);
    io("record", vote.record);
    io("age", vote.age);
}

struct Identity {
    Nonce nonce;
};

template <class Io>
void fields(Io& io, Like<Io, Identify>& asked) {
    io("job", asked.job, text);
    io("lineage", asked.lineage);
}

template <class Io>
void fields(Io& io, Like<Io, Identity>& identity) {
    io("nonce", identity.nonce);
}

template <class Io>
void fields(Io& io, Like<Io, Prepare>& prepare) {
    io("job", prepare.job, text);
    io("lineage", prepare.lineage);
    io("voter", prepare.voter);
    io("ballot", prepare.ballot);
}

template <class Io>
void fields(Io& io, Like<Io, Accept>& accept) {
    io("job", accept.job, text);
    io("voter", accept.voter);
    io("ballot", accept.ballot);
    io("record", accept.record);
}

template <class Io>
void fields(Io& io, Like<Io, Promise>& promise) {
    io("ballot", promise.ballot);
    io.optional("vote", promise.vote);
}

template <class Io>
void fields(Io& io, Like<Io, Accepted>& accepted) {
    io("ballot", accepted.ballot);
}

template <class Io>
void fields(Io& io, Like<Io, Refused>& refused) {
    io("ballot", refused.ballot);
    io("promised", refused.promised);
}

template <class Io>
void fields(Io& io, Like<Io, Unknown>& unknown) {
    io("ballot", unknown.ballot);
}

}  // namespace ddprun::voters

namespace ddprun::control {

template <>
inline constexpr std::string_view type_name<voters::Identify> = "identify";
template <>
inline constexpr std::string_view type_name<voters::Identity> = "voter";
template <>
inline constexpr std::string_view type_name<voters::Prepare> = "prepare";
template <>
inline constexpr std::string_view type_name<voters::Accept> = "accept";
template <>
inline constexpr std::string_view type_name<voters::Promise> = "promise";
template <>
inline constexpr std::string_view type_name<voters::Accepted> = "accepted";
template <>
inline constexpr std::string_view type_name<voters::Refused> = "refused";
template <>
inline constexpr std::string_view type_name<voters::Unknown> = "unknown";

}  // namespace ddprun::control

namespace ddprun::voters {
namespace {

template <class Message>
std::string line_of(const Message& message) {
    std::string line;
    std::visit([&](const auto& value) { control::codec::append(line, value); }, message);
    return line + '\n';
}

std::string_view without_end(std::string_view line) {
    if (line.ends_with('\n')) line.remove_suffix(1);
    return line;
}

const JobRecord* record_in(const Request& request) {
    const auto* accept = std::get_if<Accept>(&request);
    return accept == nullptr ? nullptr : &accept->record;
}

const JobRecord* record_in(const Answer& answer) {
    const auto* promise = std::get_if<Promise>(&answer);
    return promise == nullptr || !promise->vote ? nullptr : &promise->vote->record;
}

}  // namespace

std::string encode(const Identify& request) {
    return line_of(std::variant<Identify>{request});
}

std::optional<Identify> identify_in(std::string_view line) {
    auto found = control::codec::message_of<std::variant<Identify>>(without_end(line), "request");
    if (!found) return std::nullopt;
    return std::get<Identify>(std::move(*found));
}

std::string encode_identity(const Nonce& voter) {
    return line_of(std::variant<Identity>{Identity{voter}});
}

std::optional<Nonce> identity_in(std::string_view line) {
    const auto found =
        control::codec::message_of<std::variant<Identity>>(without_end(line), "answer");
    if (!found) return std::nullopt;
    return std::get<Identity>(*found).nonce;
}

std::string encode(const Request& request) {
    return line_of(request);
}

std::string encode(const Answer& answer) {
    return line_of(answer);
}

template <class Message>
Result<std::optional<Message>> LineDecoder<Message>::next() {
    using control::Error;
    const auto rest = std::string_view{buffer_}.substr(consumed_);
    const auto size = rest.find('\n');
    if (std::min(size, rest.size()) > limits::max_vote_line_bytes)
        return Failure{Error::frame_too_long, "a line of a vote"};
    if (size == std::string_view::npos) {
        buffer_.erase(0, std::exchange(consumed_, 0));
        return std::optional<Message>{};
    }
    // After an error the line is not consumed: the next call returns the same error.
    auto message = control::codec::message_of<Message>(rest.substr(0, size), "line of a vote");
    if (!message) return message.error();
    if (const auto* record = record_in(*message))
        if (auto problem = problem_of(*record); !problem.empty())
            return Failure{Error::bad_field, "record: " + problem};
    consumed_ += size + 1;
    return std::optional<Message>{std::move(*message)};
}

template class LineDecoder<Request>;
template class LineDecoder<Answer>;

}  // namespace ddprun::voters
