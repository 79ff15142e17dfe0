// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Where --topology finds the name of a host's switch. Pure.
namespace ddprun::launcher {

/// NAME of `--topology=env:NAME`; none in the option's other forms.
std::optional<std::string_view> topology_variable(std::string_view option);

/// Where a host is, the levels above first: "row1/rack7". None: the file does not name it. `names`:
/// the names of the host, any of which counts.
///
/// Two kinds of lines are read, `#` begins a comment:
///
///   n1 /row1/rack7                    host and place, as Hadoop's table of racks has them
///   SwitchName=s1 Nodes=n[1-8,10]     Slurm's topology.conf, also BlockName=
///   SwitchName=s0 Switches=s[1-4]
std::optional<std::string> place_in_topology(
    std::string_view file, const std::vector<std::string>& names);

/// Whether "n[001-128,130],gpu-a[7-9]" names this host. Grammar: slurm.conf(5), "hostlist".
bool is_in_host_list(std::string_view list, std::string_view host);

}  // namespace ddprun::launcher
