// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/escaped.hpp"
#include "rendezvous/control/voter_set.hpp"

#include <string>
#include <vector>

namespace ddprun::voters {

/// Names and addresses in a record: every voter must have the same record.
using control::is_name;
using control::VoterPlace;
using control::VoterSet;

/// The first step of a change. Requires: no change is in progress.
VoterSet jointly(const VoterSet& set, std::vector<VoterPlace> voters);
/// The second step. Requires: a change is in progress, and its first step is chosen.
VoterSet finished(const VoterSet& set);

/// Why these cannot be voters; empty: they can.
std::string problem_of(const std::vector<VoterPlace>& places);
std::string problem_of(const VoterSet& set);

}  // namespace ddprun::voters
