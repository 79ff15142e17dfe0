// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace ddprun::coordinator {

/// This server was elected, or its leadership was extended.
struct Led {
    std::uint64_t epoch = 0;
    Instant until{};
    /// Set with a new epoch: the job may have had an earlier leader, whose nodes may come back.
    bool led_before = false;
    /// Set with a new epoch: how jobs of this id have ended, as recorded by earlier leaders.
    std::string ends = {};
    /// Set with a new epoch: this server's address for other nodes; for /status.
    std::string endpoint = {};
    /// Set with a new epoch, where nodes vote: the lineage of the record that names this leader.
    std::optional<Nonce> record = std::nullopt;
};

struct LeaderStatus {
    std::string endpoint;
    std::uint64_t epoch = 0;
    Duration since{};
    bool operator==(const LeaderStatus&) const = default;
};

/// Whether this server may act for its jobs, and under which epoch. In *fixed* mode it always may,
/// under epoch 0. An elected server may act until its term ends by this machine's clock, even
/// without any further message. No other server's term begins before that.
class Leadership {
public:
    explicit Leadership(bool is_elected) : is_elected_(is_elected) {}

    bool may_act(Instant now) const { return !is_elected_ || (term_ && now < term_->led.until); }
    std::uint64_t epoch() const { return term_ ? term_->led.epoch : 0; }
    std::optional<Nonce> record() const { return term_ ? term_->led.record : std::nullopt; }
    std::optional<Instant> ends_at() const {
        return term_ ? std::optional{term_->led.until} : std::nullopt;
    }
    /// The leadership for /status; none: the server does not lead.
    std::optional<LeaderStatus> status(Instant now) const {
        if (!is_elected_ || !term_ || !may_act(now)) return std::nullopt;
        return LeaderStatus{term_->led.endpoint, term_->led.epoch, now - term_->since};
    }

    /// Returns true when a term begins. A confirmation that comes after the end of its term begins
    /// none.
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

    /// The time until which nodes of an earlier leader's job may come back, if their lease is
    /// `lease`.
    std::optional<Instant> awaits_members_until(Duration lease) const {
        if (!term_ || !term_->led.led_before) return std::nullopt;
        return term_->since + lease;
    }

    /// A node that knows `other_record` wants to take part. Returns true for the given time from
    /// the first such call: the voters of that record may still elect a leader, which claims this
    /// job.
    bool waits_for_claim(const Nonce& other_record, Duration wait, Instant now) {
        if (!term_ || !term_->led.record || *term_->led.record == other_record) return false;
        if (!other_record_since_) other_record_since_ = now;
        return now - *other_record_since_ < wait;
    }

private:
    struct Term {
        Led led;
        Instant since;
    };

    bool is_elected_;
    std::optional<Term> term_;
    std::uint64_t ended_epoch_ = 0;
    /// Since when a node knows another record of the job, in whichever term.
    std::optional<Instant> other_record_since_;
};

}  // namespace ddprun::coordinator
