// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/field_kinds.hpp"
#include "rendezvous/control/voter_set.hpp"

#include <cstdint>

/// The fields of voters, which votes (rendezvous/voters/) have too.
namespace ddprun::control {

inline constexpr Whole voted_number{0, static_cast<std::int64_t>(limits::max_voted_number)};

template <class Io>
void fields(Io& io, Like<Io, Ballot>& ballot) {
    io("counter", ballot.counter, voted_number);
    io("proposer", ballot.proposer);
}

template <class Io>
void fields(Io& io, Like<Io, VoterPlace>& place) {
    io("addr", place.address, Name{1});
    io("nonce", place.nonce);
}

template <class Io>
void fields(Io& io, Like<Io, VoterSet>& set) {
    io("version", set.version, voted_number);
    io("voters", set.voters, List{limits::max_voters});
    io.optional("former", set.former, List{limits::max_voters});
}

}  // namespace ddprun::control
