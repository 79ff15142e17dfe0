// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <optional>

namespace ddprun::coordinator {

/// Whether this server may act for its jobs, and under which epoch. In *fixed* mode it always may,
/// under epoch 0. Where it was elected it may until the right that the election gave runs out by
/// this machine's own clock, whatever did not reach it since: before the right of any other server
/// begins.
class Leadership {
public:
    explicit Leadership(bool is_elected) : is_elected_(is_elected) {}

    bool may_act(Instant now) const { return !is_elected_ || (term_ && now < term_->until); }
    std::uint64_t epoch() const { return term_ ? term_->epoch : 0; }
    std::optional<Instant> ends_at() const {
        return term_ ? std::optional{term_->until} : std::nullopt;
    }

    /// Elected, or confirmed for longer. `led_before`: an earlier leader may have left a job.
    /// One that has ended begins no more: a confirmation can come too late.
    void lead(std::uint64_t epoch, Instant until, bool led_before, Instant now) {
        if (epoch <= ended_epoch_) return;
        if (term_ && term_->epoch == epoch)
            term_->until = until;
        else
            term_ = Term{epoch, until, led_before ? std::optional{now} : std::nullopt};
    }
    void end() {
        ended_epoch_ = epoch();
        term_.reset();
    }

    /// Until then the nodes of an earlier leader's job may come back, if one of them has `lease`.
    std::optional<Instant> awaits_members_until(Duration lease) const {
        if (!term_ || !term_->succeeded_at) return std::nullopt;
        return *term_->succeeded_at + lease;
    }

private:
    struct Term {
        std::uint64_t epoch;
        Instant until;
        /// When it took over from an earlier leader; none: it is the first one of the job.
        std::optional<Instant> succeeded_at;
    };

    bool is_elected_;
    std::optional<Term> term_;
    std::uint64_t ended_epoch_ = 0;
};

}  // namespace ddprun::coordinator
