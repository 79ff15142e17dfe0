// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::agent {

/// The endpoints of the command line, in the order in which they were typed: at each of them a
/// process of the job listens, if its machine runs one. A node that knows of no leader asks them in
/// turn. The process at the first one begins the record of the job, but asks the others first,
/// since the job may have one already.
class Places {
public:
    /// Requires: there is one at least.
    explicit Places(std::vector<Endpoint> typed)
        : typed_(std::move(typed)),
          replies_(typed_.size()) {}

    const std::vector<Endpoint>& all() const { return typed_; }

    /// This process's server listens there. None: it listens at none of them (yet).
    std::optional<std::size_t> own() const { return own_; }
    bool is_first() const { return own_ == std::size_t{0}; }
    void listen_at(std::size_t own) {
        own_ = own;
        // The others first. Its own server may be asked later: a leader may have claimed it.
        if (is_first() && turn_ == 0) turn_ = 1 % typed_.size();
    }

    /// The place of the next attempt.
    const Endpoint& next() {
        const auto place = std::exchange(turn_, (turn_ + 1) % typed_.size());
        replies_[place] = {true, false};
        ++asked_count_;
        return typed_[place];
    }
    /// Each place was asked at most once.
    bool is_first_turn() const { return asked_count_ <= typed_.size(); }
    /// The process at `place` has no leader of the job, or no process listens there.
    void knows_none(const Endpoint& place) {
        const auto found = std::find(typed_.begin(), typed_.end(), place);
        if (found == typed_.end()) return;
        replies_[static_cast<std::size_t>(found - typed_.begin())].knows_none = true;
    }

    /// No record is known, and this process has not begun one.
    bool is_asking() const { return is_asking_; }
    void end_asking() { is_asking_ = false; }
    /// Most places know of none. A silent one may be on the other side of a cut network, with a
    /// leader.
    bool may_begin_record() const {
        if (!is_asking_ || !is_first()) return false;
        const auto rest = std::next(replies_.begin());
        const bool were_asked =
            std::all_of(rest, replies_.end(), [](const Reply& one) { return one.was_asked; });
        const auto answers = 1 + std::count_if(rest, replies_.end(), [](const Reply& one) {
                                 return one.knows_none;
                             });
        return were_asked && 2 * static_cast<std::size_t>(answers) > replies_.size();
    }

private:
    struct Reply {
        bool was_asked = false;
        bool knows_none = false;
    };

    std::vector<Endpoint> typed_;
    std::vector<Reply> replies_;
    std::optional<std::size_t> own_;
    std::size_t turn_ = 0;
    std::size_t asked_count_ = 0;
    bool is_asking_ = true;
};

/// As on the command line: "node1:29400,node2:29400".
inline std::string describe(const std::vector<Endpoint>& places) {
    std::string text;
    for (const auto& place : places)
        text += (text.empty() ? "" : ",") + place.to_string();
    return text;
}

}  // namespace ddprun::agent
