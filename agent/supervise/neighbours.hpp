// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

/// How neighbours answer for each other, and the messages between them on `peer_port`: one line,
/// one line back, and the connection is over (FORMAT.md here).
namespace ddprun::agent {

/// No line is longer, its line feed included.
inline constexpr std::size_t max_peer_line_bytes = 128;

/// A probe: `node` is alive and in this round.
struct PeerProbe {
    /// The agent it is meant for: a port may belong to another process by now.
    Nonce to;
    Nonce node;
    int round = 0;

    bool operator==(const PeerProbe&) const = default;
};

struct PeerAnswer {
    enum class Kind : std::uint8_t {
        accepted,   ///< is reported to the server when it asks; "vouched" on the wire
        refused,    ///< the node is a confirmed suspect, or its round is over; "disowned" there
        elsewhere,  ///< the agent is not in that round, or does not hear the server itself
    };
    Kind kind = Kind::elsewhere;
    /// The round of the answering agent; -1: none.
    int round = -1;

    bool operator==(const PeerAnswer&) const = default;
};

/// With the line feed.
std::string encode(const PeerProbe& probe);
std::string encode(const PeerAnswer& answer);

/// The line in what has been read so far, without its line feed. Empty: it is none, because it is
/// too long or something follows it. Nothing: the rest of it has not come yet.
std::optional<std::string_view> peer_line(std::string_view read);

/// One line without its line feed; nothing if it is anything else.
std::optional<PeerProbe> parse_peer_probe(std::string_view line);
std::optional<PeerAnswer> parse_peer_answer(std::string_view line);

std::string_view name_of(PeerAnswer::Kind kind);

/// What the neighbours of a round do for each other while one does not hear the server: which of
/// them answered our probes, whose probes we answered, and whose we promised not to answer any
/// more. All of it ends with the round. The whole rule, with its times: docs/fence.md.
///
/// A plain value: `Agent` decides when to probe and what follows.
class Neighbours {
public:
    /// One question. Answered by `on_answer` within limits::peer_answer_timeout.
    struct Ask {
        int id = 0;
        Endpoint to;
        PeerProbe probe;

        bool operator==(const Ask&) const = default;
    };

    /// In no round yet; a node that got the first assignment earlier may probe it already.
    explicit Neighbours(const Nonce& self) : self_(self) {}

    /// Another round: questions and promises of the one before are void.
    void enter(int round, std::vector<control::Neighbour> neighbours);
    /// In no round any more, and with another name.
    void become(const Nonce& self);

    // ---- for ourselves ----

    std::size_t count() const { return neighbours_.size(); }
    /// A probe to each of them.
    std::vector<Ask> ask_all(Instant now);
    /// Without an answer: none came in time. Ignored when the question is not open any more.
    void on_answer(int id, const std::optional<PeerAnswer>& answer);
    /// Each of the round's first questions has been answered, or will not be.
    bool is_reach_known() const { return open_.empty() || open_.begin()->first > last_of_first_; }
    /// How many of them have ever answered in this round, whatever the answer.
    int reached_count() const { return static_cast<int>(reached_.size()); }
    /// When the last probe that was accepted was sent.
    std::optional<Instant> accepted_at() const { return accepted_at_; }
    /// A neighbour is in a later round: ours is over, whether or not the server reported it.
    bool is_round_over() const { return is_round_over_; }

    // ---- for the others ----

    /// Nothing: not meant for us, and not answered. `has_valid_lease`: the server may still count
    /// this node as a member; else its answer is worth nothing.
    std::optional<PeerAnswer> answer(const PeerProbe& probe, bool has_valid_lease, Instant now);
    /// To the server. With it, a node that was not heard lately is confirmed as suspect, if the
    /// server requests that. Nothing: the question is about another round.
    std::optional<control::NeighbourHeard> on_asked_about(const control::Ask& ask, Instant now);

private:
    struct Question {
        Nonce to;
        Instant sent_at;
    };

    void forget_the_oldest();

    Nonce self_;
    int round_ = -1;
    std::vector<control::Neighbour> neighbours_;
    int last_id_ = 0;
    /// Number of the last of the round's first questions.
    int last_of_first_ = 0;
    std::map<int, Question> open_;
    std::set<Nonce> reached_;
    std::optional<Instant> accepted_at_;
    bool is_round_over_ = false;

    std::map<Nonce, Instant> heard_;
    /// Of all that were forgotten for want of room, the latest.
    std::optional<Instant> forgotten_at_;
    std::set<Nonce> suspects_;
};

}  // namespace ddprun::agent
