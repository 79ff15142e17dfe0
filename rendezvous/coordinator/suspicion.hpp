// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::coordinator {

/// A neighbour that is asked about a silent member, as the job sees it.
struct Witness {
    enum class State {
        heard,   ///< can be asked
        silent,  ///< silent itself: its answer is not known
        gone,    ///< lost or left: answers no probe any more
    };
    Nonce nonce;
    std::string host;
    State state = State::heard;
    /// Until then it may have answered probes without reporting them.
    std::optional<Instant> gone_at = std::nullopt;
};

/// What is known of a member that is silent, from the moment on that it is noticed until it is
/// heard again or lost: its neighbours' answers, and what follows from them.
///
/// A member may continue for as long as one neighbour answers its probes. When all have confirmed
/// that they answer none any more, its own fence ends 4 s after the last answer, and a second later
/// it can be counted as lost. A neighbour that is gone has confirmed nothing: it may have answered
/// until it went.
class Suspicion {
public:
    explicit Suspicion(Instant now) : next_ask_(now) {}

    struct Question {
        bool confirms;
    };
    /// The question to all witnesses that can be asked, if it is time to ask.
    std::optional<Question> ask(Instant now);
    Instant next_ask() const { return next_ask_; }

    /// One of the witnesses answered.
    void note(const Nonce& witness, std::optional<Instant> answered_at, bool has_confirmed);

    /// A neighbour answered a probe of it a moment ago: it is alive.
    bool is_reached(Instant now) const;
    /// When it is lost, as things are now; nothing: a neighbour may still answer its probes.
    std::optional<Instant> lost_at(Instant heard_at, const std::vector<Witness>& witnesses) const;
    /// "node b heard from it 1.0 s ago": why it is kept, or is not.
    std::string reason(const std::vector<Witness>& witnesses, Instant now) const;

private:
    struct Answer {
        std::optional<Instant> answered_at;
        bool has_confirmed = false;
    };
    std::optional<Instant> last_answer() const;
    bool counts_as_confirmed(const Witness& witness) const;
    bool has_confirmed(const Witness& witness) const;

    std::map<Nonce, Answer> answers_;
    Instant next_ask_;
    int asked_count_ = 0;
};

}  // namespace ddprun::coordinator
