// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/sub_group.hpp"

#include "worker_sdk/src/groups/device_access.hpp"
#include "worker_sdk/src/groups/founding.hpp"
#include "worker_sdk/src/groups/group.hpp"

#include <algorithm>
#include <cstdint>

namespace ddprun::groups {

namespace {

/// The color and key of a rank.
struct Wish {
    std::int32_t color;
    std::int32_t key;
};

std::vector<Wish> wishes_of_all(Group& group, Wish mine) {
    std::vector<Wish> all(static_cast<std::size_t>(group.settings().world_size));
    Collective collective;
    collective.kind = Collective::Kind::split;
    collective.type = ElementType::int32;
    collective.input = &mine;
    collective.data = all.data();
    collective.count = 2;
    collective.is_on_host = true;
    group.perform(collective);
    return all;
}

/// The ranks with this color, in the order of their keys.
std::vector<int> members_of(int color, const std::vector<Wish>& wishes) {
    const auto wish_of = [&](int rank) { return wishes[static_cast<std::size_t>(rank)]; };
    std::vector<int> members;
    for (int rank = 0; rank < static_cast<int>(wishes.size()); ++rank)
        if (wish_of(rank).color == color) members.push_back(rank);
    std::stable_sort(members.begin(), members.end(), [&](int one, int other) {
        return wish_of(one).key < wish_of(other).key;
    });
    return members;
}

/// This rank's part on the GPU. Each part is identified by its lowest rank, and a rank that is in
/// none forms a part by itself: NCCL may crash on ranks without a color (communicators.hpp).
void* split_on_gpu(Group& group, const DeviceAccess& access, const std::vector<int>& members) {
    const int own_rank = group.settings().rank;
    const auto own = std::find(members.begin(), members.end(), own_rank);
    const bool is_in = own != members.end();
    const int color = is_in ? *std::min_element(members.begin(), members.end()) : own_rank;
    const int key = is_in ? static_cast<int>(own - members.begin()) : 0;
    void* part = nullptr;
    group.perform_beside_queue([&]() -> Outcome {
        DdprunReport report{};
        part = access.plugin.split(access.handle, color, key, &report);
        if (part) return {};
        return access.reason(report);
    });
    return part;
}

}  // namespace

std::shared_ptr<Group> sub_group(Group& group, const std::vector<int>& ranks) {
    const bool is_alone = ranks == std::vector{group.settings().rank};
    if (is_alone && group.settings().backend != Backend::nccl) return Group::create_alone();
    return found(group.founding_of(ranks));
}

std::shared_ptr<Group> split(Group& group, int color, int key) {
    const auto wishes = wishes_of_all(group, {color, key});
    const auto members = color < 0 ? std::vector<int>{} : members_of(color, wishes);
    const auto* access = group.device_access();
    if (!access) return members.empty() ? nullptr : sub_group(group, members);
    const auto drop = [&](void* part) { access->plugin.drop(access->handle, part); };
    const std::unique_ptr<void, decltype(drop)> part(split_on_gpu(group, *access, members), drop);
    if (members.empty()) return nullptr;
    return found(group.founding_of(members), SplitOff{part.get(), access->handle});
}

}  // namespace ddprun::groups
