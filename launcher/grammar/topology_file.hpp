// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Finds a host's switch for --topology. Pure.
namespace ddprun::launcher {

/// NAME in `--topology=env:NAME`; none for other forms of the option.
std::optional<std::string_view> topology_variable(std::string_view option);

/// The place of a host, highest level first: "row1/rack7". None when the file does not contain the
/// host. `names`: all names of the host; any of them may match.
///
/// Two kinds of lines are read, `#` begins a comment:
///
///   n1 /row1/rack7                    host and place, as in Hadoop's table of racks
///   SwitchName=s1 Nodes=n[1-8,10]     Slurm's topology.conf, also BlockName=
///   SwitchName=s0 Switches=s[1-4]
std::optional<std::string> place_in_topology(
    std::string_view file, const std::vector<std::string>& names);

/// Whether "n[001-128,130],gpu-a[7-9]" names this host. Grammar: slurm.conf(5), "hostlist".
bool is_in_host_list(std::string_view list, std::string_view host);

}  // namespace ddprun::launcher
