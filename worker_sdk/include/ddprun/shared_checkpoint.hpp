// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"
#include "ddprun/process_group.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// A collective: all ranks agree on the newest whole checkpoint that any of them can read, and get
/// it.
///
/// Each rank gives its own path of the folder. On a shared file system that is the same folder, and
/// only rank 0 reads. With local folders another rank may have the newest checkpoint (on the node
/// that was first before), and sends it. If several ranks have the same checkpoint, the lowest
/// sends it. Returns none when no rank has any.
///
/// A damaged file is skipped as in `CheckpointFolder::newest`; `passed_over` gets the same lines,
/// on the rank that read it. Throws Error on every rank, naming the rank, when one of them cannot
/// read its folder. Works with another world size than the one that wrote the checkpoint.
std::optional<CheckpointFolder::Found> load_newest(
    const CheckpointFolder& folder,
    const ProcessGroup& group,
    std::vector<std::string>* passed_over = nullptr);

/// Like `load_newest` above, but reads the values of these tensors only into their targets, as
/// `CheckpointFolder::newest` does. Every rank gives the same names and counts, and its own memory.
std::optional<CheckpointFolder::Found> load_newest(
    const CheckpointFolder& folder,
    const ProcessGroup& group,
    const std::vector<TensorTarget>& targets,
    std::vector<std::string>* passed_over = nullptr);

}  // namespace ddprun
