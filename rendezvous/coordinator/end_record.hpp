// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::coordinator {

/// A result without what only its job's own nodes get: the text of the worker that failed.
control::JobResult without_text(control::JobResult result);

/// How jobs of one run id have ended, newest last, for the next leader: an elected server keeps
/// this outside of itself before any node gets the result. The newest few; without texts of
/// workers.
class EndRecord {
public:
    /// Newer ones take the place of older ones.
    static constexpr std::size_t most_ends = 8;

    /// A job went by each of `incarnations`.
    void add(std::vector<std::string> incarnations, control::JobResult result);
    /// Null: no such end is known.
    const control::JobResult* find(const std::string& incarnation) const;

    /// Frames of the control protocol (control/FORMAT.md): for each end a `welcome` for each name,
    /// then the `result`.
    std::string encode() const;
    /// As far as it is legible.
    static EndRecord decode(const std::string& bytes);

private:
    struct End {
        std::vector<std::string> incarnations;
        control::JobResult result;
    };
    std::vector<End> ends_;
};

}  // namespace ddprun::coordinator
