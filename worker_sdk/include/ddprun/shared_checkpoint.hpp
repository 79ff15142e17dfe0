// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"
#include "ddprun/process_group.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// A collective: all ranks agree on the newest whole checkpoint that any of them sees, and get it.
///
/// Each rank gives the folder as it sees it. On a shared file system that is the same one, and only
/// rank 0 reads; on folders of their own the newest may lie with another rank (the node that was
/// first before), and that one sends it. Of several ranks with the same the lowest is taken. None
/// when nobody has any.
///
/// A file that turns out to be damaged is passed over as in `CheckpointFolder::newest`, whose lines
/// `passed_over` gets, on the rank that looked. Throws Error on every rank, naming the rank, when
/// one of them cannot read its folder. Not bound to the world size that wrote the checkpoint.
std::optional<CheckpointFolder::Found> load_newest(
    const CheckpointFolder& folder,
    const ProcessGroup& group,
    std::vector<std::string>* passed_over = nullptr);

}  // namespace ddprun
