// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Decides which ranks block a round. Pure.
namespace ddprun::coordinator {

/// One rank of the round, as its node has last reported it. Does not own what it points to.
struct RankSeen {
    int rank = 0;
    std::string_view host;
    /// Null: not known.
    const control::Site* site = nullptr;
    control::WorkProgress progress = {};
};

/// The rank reports a phase that takes long without being a hang.
bool is_in_slow_phase(const RankSeen& rank);

struct HangVerdict {
    enum class Kind : std::uint8_t {
        delays,  ///< some ranks work, and all others wait for them
        hangs,   ///< no rank works
    };
    Kind kind = Kind::hangs;
    /// The ranks that block the others, in ascending order; empty when the observations do not show
    /// which.
    std::vector<int> suspects;
    /// What the suspects do, or what all ranks do: "is stopped by a signal".
    std::string why;
    /// The observations allow no other explanation.
    bool is_certain = true;
    /// How long no rank has made progress; with `delays`, how long none of the other ranks has.
    Duration age{};

    bool operator==(const HangVerdict&) const = default;
};

/// None while a rank is unknown or is being debugged. None while a rank that neither works nor has
/// ended has been in its place for less than `limit` (limits::slow_phase_factor times as long when
/// it reports that it starts, evaluates, saves or compiles). None while ranks work and the others
/// do not wait for them. Otherwise the first row that applies:
///
/// | Seen                                                | Suspects                            |
/// |-----------------------------------------------------|-------------------------------------|
/// | some ranks work, at most half, and all others       | those: they delay the others        |
/// |   wait for peers or for the store                   |                                     |
/// | 1 stopped, in the kernel, or ended with 0           | those                               |
/// | 2 connecting                                        | those                               |
/// | 3 some do not wait, and are fewer than half or all  | those                               |
/// |   in one place                                      |                                     |
/// | 4 all wait, at different steps                      | those at the lowest step            |
/// | 5 they are in different places                      | those in the places with the fewest |
/// |                                                     |   ranks; none if all have as many   |
/// | 6 else                                              | none: the commonest place is named  |
///
/// A rank works while it is moving or busy. `ranks` are those of a whole round, in ascending order.
/// Requires: ranks[i].rank == i.
std::optional<HangVerdict> judge_hang(std::span<const RankSeen> ranks, Duration limit);

/// "the job hangs: no progress for 60 s; rank 2 on node7 is stopped by a signal"
std::string headline(const HangVerdict& verdict, std::span<const RankSeen> ranks);
/// A table of what each rank was observed doing. The suspects come first, with the kernel's facts;
/// ranks that do the same in one place share a row.
std::vector<std::string> rows(const HangVerdict& verdict, std::span<const RankSeen> ranks);

}  // namespace ddprun::coordinator
