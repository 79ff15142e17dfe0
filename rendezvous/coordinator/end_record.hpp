// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::coordinator {

/// The result without the text of the failed worker, which only the job's own nodes get.
control::JobResult without_text(control::JobResult result);

/// How jobs of one run id have ended, newest last, for the next leader: an elected server stores
/// this outside of its own process before any node gets the result. Keeps only the newest few,
/// without texts of workers.
class EndRecord {
public:
    /// Newer ends replace older ones.
    static constexpr std::size_t most_ends = 8;

    /// Adds the end of a job that had each of these incarnations as its name.
    void add(std::vector<std::string> incarnations, control::JobResult result);
    /// Null: the record has no end of this incarnation.
    const control::JobResult* find(const std::string& incarnation) const;

    /// Frames of the control protocol (control/FORMAT.md): each end is one `welcome` for each of
    /// its names, followed by the `result`. The oldest ends that make it longer than
    /// `limits::max_end_record_bytes` are left out.
    std::string encode() const;
    /// Decodes as many ends as can be read.
    static EndRecord decode(const std::string& bytes);

private:
    struct End {
        std::vector<std::string> incarnations;
        control::JobResult result;
    };
    static std::string encode(const End& end);

    std::vector<End> ends_;
};

}  // namespace ddprun::coordinator
