// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/trouble.hpp"

#include "ddprun/error.hpp"

#include <sstream>
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

std::string written(const Trouble& trouble) {
    if (trouble.kind == Trouble::Kind::mismatch)
        return "mismatch\n" + trouble.one_side + "\n" + trouble.other_side;
    const bool is_timeout = trouble.kind == Trouble::Kind::timeout;
    std::string text = (is_timeout ? "late\n" : "lost\n") + trouble.text + "\n";
    for (const int rank : trouble.ranks)
        text += std::to_string(rank) + " ";
    return text;
}

std::optional<Trouble> trouble_from_text(const std::string& text) {
    std::istringstream lines(text);
    std::string kind;
    std::string first;
    std::string second;
    if (!std::getline(lines, kind) || !std::getline(lines, first)) return {};
    std::getline(lines, second);
    if (kind == "mismatch") return mismatch_between(first, second);
    if (kind != "lost" && kind != "late") return {};
    Trouble trouble{kind == "late" ? Trouble::Kind::timeout : Trouble::Kind::peer_lost, first};
    std::istringstream numbers(second);
    for (int rank = 0; numbers >> rank;)
        trouble.ranks.push_back(rank);
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
