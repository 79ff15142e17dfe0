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

/// Neighbours confirm that a node is alive. Their messages on `peer_port` are one line and one line
/// back, after which the connection closes (FORMAT.md here).
namespace ddprun::agent {

/// The longest line, line feed included.
inline constexpr std::size_t max_peer_line_bytes = 128;

/// A probe, which says: `node` is alive and in this round.
struct PeerProbe {
    /// The agent that the probe is for: its port may belong to another process by now.
    Nonce to;
    Nonce node;
    int round = 0;

    bool operator==(const PeerProbe&) const = default;
};

struct PeerAnswer {
    enum class Kind : std::uint8_t {
        accepted,   ///< the server gets a report of it when it asks; "vouched" on the wire
        refused,    ///< the node is a confirmed suspect, or its round is over; "disowned"
        elsewhere,  ///< the agent is not in that round, or gets no answer from the server itself
    };
    Kind kind = Kind::elsewhere;
    /// The round of the answering agent; -1: none.
    int round = -1;

    bool operator==(const PeerAnswer&) const = default;
};

/// Includes the line feed.
std::string encode(const PeerProbe& probe);
std::string encode(const PeerAnswer& answer);

/// The line in `read`, without its line feed. Empty: invalid, because it is too long or bytes
/// follow it. None: the line is not complete yet.
std::optional<std::string_view> peer_line(
    std::string_view read, std::size_t most_bytes = max_peer_line_bytes);

/// Parses one line without its line feed; none: it is not a probe.
std::optional<PeerProbe> parse_peer_probe(std::string_view line);
std::optional<PeerAnswer> parse_peer_answer(std::string_view line);

std::string_view name_of(PeerAnswer::Kind kind);

/// The probes between the neighbours of a round, which are sent when the server is silent for a
/// node. Records which neighbours answered this node's probes, which probes it answered, and which
/// nodes it has promised not to answer any more. All records end with the round. The whole rule,
/// with its times: docs/fence.md.
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

    /// This node is in no round yet. A node that got its assignment earlier may probe it already.
    explicit Neighbours(const Nonce& self) : self_(self) {}

    /// Enters another round: questions and promises of the previous one are void.
    void enter(int round, std::vector<control::Neighbour> neighbours);
    /// This node leaves its round and has a new nonce.
    void become(const Nonce& self);

    // ---- this node's own probes ----

    std::size_t count() const { return neighbours_.size(); }
    /// Makes a probe to each neighbour.
    std::vector<Ask> ask_all(Instant now);
    /// Empty `answer`: none came in time. Ignored when the question is no longer open.
    void on_answer(int id, const std::optional<PeerAnswer>& answer);
    /// Each of the round's first questions has been answered or has timed out.
    bool is_reach_known() const { return open_.empty() || open_.begin()->first > last_of_first_; }
    /// How many neighbours have answered in this round, with any answer.
    int reached_count() const { return static_cast<int>(reached_.size()); }
    /// The send time of the newest accepted probe.
    std::optional<Instant> accepted_at() const { return accepted_at_; }
    /// A neighbour is in a later round: this round is over, even if the server has not reported
    /// that.
    bool is_round_over() const { return is_round_over_; }

    // ---- probes of other nodes ----

    /// None: the probe is for another agent, and gets no answer. `has_valid_lease`: the server may
    /// still count this node as a member; if false, the answer confirms nothing.
    std::optional<PeerAnswer> answer(const PeerProbe& probe, bool has_valid_lease, Instant now);
    /// Returns the answer to the server. If `ask` requires it and the node was not heard lately,
    /// the node becomes a confirmed suspect here. None: the question is about another round.
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
    /// The number of the last question in the round's first set of probes.
    int last_of_first_ = 0;
    std::map<int, Question> open_;
    std::set<Nonce> reached_;
    std::optional<Instant> accepted_at_;
    bool is_round_over_ = false;

    std::map<Nonce, Instant> heard_;
    /// The latest time among all entries that were dropped from the full list.
    std::optional<Instant> forgotten_at_;
    std::set<Nonce> suspects_;
};

}  // namespace ddprun::agent
