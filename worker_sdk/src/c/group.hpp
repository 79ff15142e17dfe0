// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/ddprun.h"
#include "worker_sdk/src/c/guard.hpp"
#include "worker_sdk/src/groups/group.hpp"

#include <memory>

struct ddprun_group {
    std::shared_ptr<ddprun::groups::Group> group;
};

/// Keeps its group alive.
struct ddprun_work {
    std::shared_ptr<ddprun::groups::Group> group;
    ddprun::groups::Ticket ticket{};
};

namespace ddprun::c {

inline const std::shared_ptr<groups::Group>& of(const ddprun_group* group) {
    need(group, "group");
    return group->group;
}

}  // namespace ddprun::c
