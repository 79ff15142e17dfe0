// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/group_error.hpp"

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

GroupError mismatch_between(std::string one_side, std::string other_side) {
    GroupError error{GroupError::Kind::mismatch, one_side + ", but " + other_side};
    error.one_side = std::move(one_side);
    error.other_side = std::move(other_side);
    return error;
}

std::string written(const GroupError& error) {
    if (error.kind == GroupError::Kind::mismatch)
        return "mismatch\n" + error.one_side + "\n" + error.other_side;
    const bool is_timeout = error.kind == GroupError::Kind::timeout;
    std::string text = (is_timeout ? "late\n" : "lost\n") + error.text + "\n";
    for (const int rank : error.ranks)
        text += std::to_string(rank) + " ";
    return text;
}

std::optional<GroupError> error_from_text(const std::string& text) {
    std::istringstream lines(text);
    std::string kind;
    std::string first;
    std::string second;
    if (!std::getline(lines, kind) || !std::getline(lines, first)) return {};
    std::getline(lines, second);
    if (kind == "mismatch") return mismatch_between(first, second);
    if (kind != "lost" && kind != "late") return {};
    GroupError error{
        kind == "late" ? GroupError::Kind::timeout : GroupError::Kind::peer_lost, first};
    std::istringstream numbers(second);
    for (int rank = 0; numbers >> rank;)
        error.ranks.push_back(rank);
    return error;
}

void throw_error(const GroupError& error, int round) {
    switch (error.kind) {
        case GroupError::Kind::peer_lost: throw PeerLost(error.text, error.ranks, round);
        case GroupError::Kind::timeout: throw Timeout(error.text, error.ranks, error.operation);
        case GroupError::Kind::mismatch:
            throw Mismatch(error.text, error.one_side, error.other_side);
        case GroupError::Kind::usage: throw UsageError(error.text);
        case GroupError::Kind::other: break;
    }
    throw Error(error.text);
}

}  // namespace ddprun::groups
