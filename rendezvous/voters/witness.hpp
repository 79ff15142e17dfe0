// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/voters/vote_text.hpp"
#include "rendezvous/voters/voter.hpp"

#include <compare>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace ddprun::voters {

/// Votes about jobs of which this process is no part: with nodes on two hosts it is the third
/// voter. In memory only: a witness that is started again is another voter.
///
/// Each record of a job has a voter of its own here, so jobs of one id do not disturb each other.
/// The number of records is bounded, of each tenant too. When there is no room, records that
/// nothing has been asked about for so long that no process needs them are forgotten (FORMAT.md).
class Witness {
public:
    /// `process`: the nonce of this process, under which it votes.
    explicit Witness(Nonce process) : process_(process) {}

    struct Reply {
        /// The line of the answer, with its line feed; empty: the request is not valid.
        std::string line;
        /// The job, if this is the first request about this record; else empty.
        std::string new_job = {};
    };
    /// `line`: a request without `vote_protocol`. `tenant`: of the caller; each one has records of
    /// its own.
    Reply answer(const std::string& tenant, std::string_view line, Instant now);

    std::size_t record_count() const { return records_.size(); }

private:
    struct Key {
        std::string tenant;
        std::string job;
        Nonce lineage;
        auto operator<=>(const Key&) const = default;
    };
    struct Record {
        Voter voter;
        Instant asked_at;
    };

    std::string identify(const std::string& tenant, const Identify& request, Instant now);
    Answer vote(Key key, const Request& request, Instant now, Reply& reply);
    bool has_room(const std::string& tenant, Instant now);
    void forget(Instant now);

    Nonce process_;
    std::map<Key, Record> records_;
};

}  // namespace ddprun::voters
