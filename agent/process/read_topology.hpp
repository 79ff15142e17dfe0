// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/topology.hpp"

#include <filesystem>

namespace ddprun::agent {

/// The machine as the kernel describes it: CPUs and their nodes, sockets, cores and caches from
/// /sys/devices/system, NVIDIA GPUs from /proc/driver/nvidia/gpus with their nodes from
/// /sys/bus/pci/devices. Missing values keep their defaults or are left out; a machine without /sys
/// has no CPUs here.
///
/// `allowed`: the CPUs that this thread may use. Reads a few small files per CPU, so call it only
/// before the job and when it is needed.
Topology read_topology(const CpuList& allowed, const std::filesystem::path& root = "/");

/// The affinity mask of the calling thread; empty when the kernel does not report it.
CpuList allowed_cpus();

}  // namespace ddprun::agent
