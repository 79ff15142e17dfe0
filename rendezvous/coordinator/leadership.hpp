// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace ddprun::coordinator {

/// This server was elected, or confirmed for longer.
struct Led {
    std::uint64_t epoch = 0;
    Instant until{};
    /// With a new epoch: the job may have had a leader before, which may have left a job.
    bool led_before = false;
    /// With a new epoch: how jobs of this id have ended, as the leaders before have recorded it.
    std::string ends = {};
    /// With a new epoch: where other nodes reach this server; for /status.
    std::string endpoint = {};
};

struct LeaderStatus {
    std::string endpoint;
    std::uint64_t epoch = 0;
    Duration since{};
    bool operator==(const LeaderStatus&) const = default;
};

/// Whether this server may act for its jobs, and under which epoch. In *fixed* mode it always may,
/// under epoch 0. Where it was elected it may until the right that the election gave runs out by
/// this machine's own clock, whatever did not reach it since: before the right of any other server
/// begins.
class Leadership {
public:
    explicit Leadership(bool is_elected) : is_elected_(is_elected) {}

    bool may_act(Instant now) const { return !is_elected_ || (term_ && now < term_->led.until); }
    std::uint64_t epoch() const { return term_ ? term_->led.epoch : 0; }
    std::optional<Instant> ends_at() const {
        return term_ ? std::optional{term_->led.until} : std::nullopt;
    }
    /// For /status; none: it does not lead.
    std::optional<LeaderStatus> status(Instant now) const {
        if (!is_elected_ || !term_ || !may_act(now)) return std::nullopt;
        return LeaderStatus{term_->led.endpoint, term_->led.epoch, now - term_->since};
    }

    /// True: this is the begin of a term. One that has ended begins no more: a confirmation can
    /// come too late.
    bool lead(Led led, Instant now) {
        if (led.epoch <= ended_epoch_) return false;
        if (term_ && term_->led.epoch == led.epoch) {
            term_->led.until = led.until;
            return false;
        }
        term_ = Term{std::move(led), now};
        return true;
    }
    void end() {
        ended_epoch_ = epoch();
        term_.reset();
    }

    /// Until then the nodes of an earlier leader's job may come back, if one of them has `lease`.
    std::optional<Instant> awaits_members_until(Duration lease) const {
        if (!term_ || !term_->led.led_before) return std::nullopt;
        return term_->since + lease;
    }

private:
    struct Term {
        Led led;
        Instant since;
    };

    bool is_elected_;
    std::optional<Term> term_;
    std::uint64_t ended_epoch_ = 0;
};

}  // namespace ddprun::coordinator
