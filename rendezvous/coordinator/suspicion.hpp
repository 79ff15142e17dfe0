// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::coordinator {

/// One of those who are asked about a silent member, as the job sees it.
struct Witness {
    enum class State {
        heard,   ///< can be asked
        silent,  ///< itself: what it would say is not known
        gone,    ///< lost or left, with everything that it ran: answers no vouch any more
    };
    Nonce nonce;
    std::string host;
    State state = State::heard;
    /// Until then it may have answered vouches that nobody was told of.
    std::optional<Instant> gone_at = std::nullopt;
};

/// What is known of a member that is silent, from the moment on that it is noticed until it is
/// heard again or lost: what its neighbours said, and what follows from it.
///
/// A member may live on for as long as one of them answers its vouches. When all have promised to
/// answer none any more, its own fence falls 4 s after the last answer, and a second later it can
/// be counted as lost. One that is gone has promised nothing: it may have answered until it went.
class Suspicion {
public:
    explicit Suspicion(Instant now) : next_ask_(now) {}

    struct Question {
        bool disowns;
    };
    /// What to ask all who can be asked, if it is time to ask.
    std::optional<Question> ask(Instant now);
    Instant next_ask() const { return next_ask_; }

    /// One of the witnesses answered.
    void note(const Nonce& witness, std::optional<Instant> vouched_at, bool has_disowned);

    /// Somebody answered a vouch of it a moment ago: it lives.
    bool is_vouched_for(Instant now) const;
    /// When it is lost, as things stand; nothing: somebody may still vouch for it.
    std::optional<Instant> lost_at(Instant heard_at, const std::vector<Witness>& witnesses) const;
    /// "node b heard from it 1.0 s ago": why it is kept, or is not, for people.
    std::string reason(const std::vector<Witness>& witnesses, Instant now) const;

private:
    struct Answer {
        std::optional<Instant> vouched_at;
        bool has_disowned = false;
    };
    std::optional<Instant> last_vouch() const;
    bool is_disowned_by(const Witness& witness) const;
    bool has_promised(const Witness& witness) const;

    std::map<Nonce, Answer> answers_;
    Instant next_ask_;
    int asked_count_ = 0;
};

}  // namespace ddprun::coordinator
