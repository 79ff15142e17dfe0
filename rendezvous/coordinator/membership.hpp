// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/coordinator/reach.hpp"
#include "rendezvous/coordinator/suspicion.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::coordinator {

/// Its host came and went too often: it is let in when this is over, or when it is needed.
struct Hold {
    Instant ends_at{};
    Duration length{};
};

/// One node of a job, as the job sees it.
struct Member {
    enum class State : std::uint8_t {
        ready,      ///< has no workers and a fresh store: may be in the next round
        starting,   ///< was given its place in the round
        running,    ///< its workers are exec'd
        succeeded,  ///< its workers all exited 0
        stopping,   ///< was told to stop, its workers may live
        out,        ///< was not ready when the drain was over: does not count until it is
    };

    control::Join join;
    /// The last one; still current if `is_connected`.
    Connected connection;
    Reach reach;
    std::uint64_t arrival = 0;

    State state = State::ready;
    bool is_connected = true;
    /// The signal with which it said that it goes.
    std::optional<int> leave_signal;
    /// Place in the round at hand, or in the last one.
    std::optional<int> group_rank;
    Instant came_at{};
    Instant heard_at{};
    /// Since when somebody else asks for its fixed place.
    std::optional<Instant> contested_at;
    /// How many of its neighbours it can ask for a vouch in this round.
    int reached = 0;
    /// While it is silent.
    std::optional<Suspicion> suspicion;
    /// When it counts as lost because its connection ended.
    std::optional<Instant> lost_at;
    /// While it has no place.
    std::optional<Hold> hold;
    /// While stopping: when it is no longer waited for, if it is heard then.
    std::optional<Instant> ready_by;

    const Nonce& nonce() const { return join.node.nonce; }
    const std::string& host() const { return join.node.host; }
    /// "node2 (pid 4242)".
    std::string name() const;
    bool is_leaving() const { return leave_signal.has_value(); }
    /// May be given a place in the next round.
    bool is_candidate() const {
        return state == State::ready && is_connected && !is_leaving() && join.store_port != 0;
    }
    /// It has, or may have, workers of the round at hand.
    bool is_active() const {
        return state == State::starting || state == State::running || state == State::succeeded ||
               state == State::stopping;
    }
};

std::string_view name_of(Member::State state);

/// All nodes of one job by their nonce. A plain container: what follows from a change is the job's
/// business.
///
/// While thousands join, each join asks how many there are: so candidates are not counted anew, but
/// those members are looked at again that were handed out to be changed.
class Membership {
public:
    /// No pointer that was handed out before is used any more. Call it between two events.
    void begin_event();

    /// Requires: no node of this nonce is here.
    Member& add(Member member);
    void remove(const Nonce& nonce);
    Member* find(const Nonce& nonce);
    const Member* find(const Nonce& nonce) const;

    std::size_t size() const { return by_nonce_.size(); }
    /// How many may be in the next round: those who are held as far as there are fewer than `min`
    /// without them.
    std::size_t candidate_count(std::size_t min);
    bool has_somebody_staying() const;

    /// What must hold of the counts. Looks at everybody.
    void check() const;

    /// Everybody, in order of arrival: what leaves for all leaves in this order.
    std::vector<Member*> by_arrival();
    std::vector<const Member*> by_arrival() const;

private:
    enum class Counted : std::uint8_t { no, free, held };

    struct Entry {
        Member member;
        Counted counted = Counted::no;
        bool is_open = false;
    };

    static Counted kind_of(const Member& member);
    Member* open(Entry& entry);
    void count_open();
    std::size_t& count_of(Counted kind);

    std::map<Nonce, Entry> by_nonce_;
    std::map<std::uint64_t, Entry*> by_arrival_;
    std::uint64_t next_arrival_ = 0;
    /// Handed out since the event began; null where it was removed.
    std::vector<Entry*> open_;
    /// By Counted.
    std::array<std::size_t, 3> counts_{};
};

/// What decides whether a round closes now.
struct FormingFacts {
    int ready_count = 0;
    int min = 1;
    /// At this many the round is full.
    int most = 1;
    /// There was a round before, and each of its members is ready, lost or out.
    bool is_previous_round_settled = false;
    std::optional<Instant> last_call_ends;
    Instant now{};
};

struct FormingDecision {
    bool closes = false;
    /// In words, for the log and the status page.
    std::string reason;

    bool operator==(const FormingDecision&) const = default;
};

FormingDecision decide_round(const FormingFacts& facts);

/// Those who get into the next round: members of the last one first, then by arrival; at most
/// `most`. Of those who are held only as many as `min` needs, soonest free first.
std::vector<Member*> choose_members(Membership& members, std::size_t min, std::size_t most);

/// Why this node cannot be in a job with that one, naming both values; empty if it can.
std::string disagreement(const control::Join& job, const control::Join& node);

}  // namespace ddprun::coordinator
