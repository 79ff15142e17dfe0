// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/trouble.hpp"

#include "ddprun/error.hpp"

#include <utility>

namespace ddprun::groups {

std::string text_of(const std::vector<int>& ranks) {
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
        text += std::to_string(ranks[i]);
    }
    return text;
}

Trouble mismatch_between(std::string one_side, std::string other_side) {
    Trouble trouble{Trouble::Kind::mismatch, one_side + ", but " + other_side};
    trouble.one_side = std::move(one_side);
    trouble.other_side = std::move(other_side);
    return trouble;
}

void throw_trouble(const Trouble& trouble, int round) {
    switch (trouble.kind) {
        case Trouble::Kind::peer_lost: throw PeerLost(trouble.text, trouble.ranks, round);
        case Trouble::Kind::timeout: throw Timeout(trouble.text, trouble.ranks, trouble.operation);
        case Trouble::Kind::mismatch:
            throw Mismatch(trouble.text, trouble.one_side, trouble.other_side);
        case Trouble::Kind::usage: throw UsageError(trouble.text);
        case Trouble::Kind::other: break;
    }
    throw Error(trouble.text);
}

}  // namespace ddprun::groups
