// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::coordinator {

/// A neighbour that is asked about a silent member, with its state in the job.
struct Witness {
    enum class State {
        heard,   ///< not silent: can be asked
        silent,  ///< silent itself, so its answer is not known
        gone,    ///< lost or left, so it no longer answers probes
    };
    Nonce nonce;
    std::string host;
    State state = State::heard;
    /// Set for `gone`. Until this time the witness may have answered probes without reporting them.
    std::optional<Instant> gone_at = std::nullopt;
};

/// The neighbours' answers about a silent member, and the conclusion from them. Exists from the
/// moment when the silence is noticed until the member is heard again or lost.
///
/// A member may continue for as long as one neighbour answers its probes. When all have confirmed
/// that they no longer answer its probes, its own fence ends 4 s after the last answer, and a
/// second later it counts as lost. A neighbour that is gone counts as unconfirmed: it may have
/// answered probes until it ended.
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

    /// A neighbour has just answered a probe from this member, so the member is alive.
    bool is_reached(Instant now) const;
    /// When the member will count as lost; none while a neighbour may still answer its probes.
    std::optional<Instant> lost_at(Instant heard_at, const std::vector<Witness>& witnesses) const;
    /// Why the member is kept or lost: "node b heard from it 1.0 s ago".
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
