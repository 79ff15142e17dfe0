// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/reduce/host_values.hpp"

#include "worker_sdk/src/c/group.hpp"

namespace ddprun::reduce {

namespace {

using groups::Collective;

void perform(const ProcessGroup& group, Collective collective) {
    collective.is_on_host = true;
    group.handle()->group->perform(collective);
}

}  // namespace

void all_reduce_on_host(
    const ProcessGroup& group, void* data, std::size_t count, ElementType type, Op op) {
    Collective collective;
    collective.kind = Collective::Kind::all_reduce;
    collective.data = data;
    collective.count = count;
    collective.type = type;
    collective.op = op;
    perform(group, collective);
}

void broadcast_on_host(
    const ProcessGroup& group, void* data, std::size_t count, ElementType type, int root) {
    Collective collective;
    collective.kind = Collective::Kind::broadcast;
    collective.data = data;
    collective.count = count;
    collective.type = type;
    collective.root = root;
    perform(group, collective);
}

void all_gather_on_host(
    const ProcessGroup& group,
    const void* input,
    void* output,
    std::size_t count,
    ElementType type) {
    Collective collective;
    collective.kind = Collective::Kind::all_gather;
    collective.input = input;
    collective.data = output;
    collective.count = count;
    collective.type = type;
    perform(group, collective);
}

}  // namespace ddprun::reduce
