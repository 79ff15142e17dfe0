// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"
#include "ddprun/process_group.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// A collective: all ranks agree on the newest whole checkpoint that any rank can read, and get it.
///
/// Each rank gives its own path of the folder. On a shared file system all paths are the same
/// folder, and only rank 0 reads. With local folders another rank may have the newest checkpoint
/// (on the node that was first before), and sends it. If several ranks have the same checkpoint,
/// the lowest rank sends it. Returns none when no rank has a checkpoint.
///
/// A damaged file is skipped as in `CheckpointFolder::newest`; on the rank that read the file,
/// `passed_over` gets the same lines. When a rank cannot read its folder, throws an Error that
/// names this rank, on every rank. The world size may differ from that of the ranks that wrote the
/// checkpoint.
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
