// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// A machine that --hosts or --hostfile names.
struct Host {
    /// The name as ssh accepts it: "node1", "user@node1", an alias of ~/.ssh/config, "fe80::1".
    std::string name;
    /// The number of its workers, if the list has one.
    std::optional<int> workers;

    bool operator==(const Host&) const = default;
};

/// `a,user@b:4,[fe80::1]:2`. A repeated name is one host: its numbers are added; if it has no
/// number, each mention counts as one worker. On error the context is what was given and what is
/// accepted.
Result<std::vector<Host>> parse_host_list(std::string_view text);

/// Lines `name`, `name slots=4` (Open MPI) and `name:4` (MPICH), with comments after '#'. The files
/// of PBS and LSF repeat a host once for each slot, so repeated names are counted as above.
Result<std::vector<Host>> parse_host_file(std::string_view text);

}  // namespace ddprun::launcher
