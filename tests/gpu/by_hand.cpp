// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/by_hand.hpp"

#include <stdlib.h>
#include <string.h>

#include <string>
#include <utility>
#include <variant>

namespace gpu_check {

using ddprun::groups::GroupError;
using ddprun::nccl::NcclFunctions;
using ddprun::nccl::abi::Config;
using ddprun::nccl::abi::Result;
using ddprun::nccl::abi::UniqueId;

namespace {

NcclFunctions opened() {
    auto found =
        NcclFunctions::open([](const char* name) -> const char* { return ::getenv(name); });
    if (const auto* error = std::get_if<GroupError>(&found)) throw std::runtime_error(error->text);
    return std::get<NcclFunctions>(std::move(found));
}

}  // namespace

ByHand::ByHand(
    const ddprun::World& world,
    ddprun::Store& store,
    const Gpu& gpu,
    Kind kind,
    const std::string& name)
    : world_(world),
      store_(store),
      gpu_(gpu),
      name_(name),
      nccl_(opened()),
      stream_(gpu.new_stream()) {
    UniqueId id{};
    if (world.rank == 0) {
        require(nccl_.get_unique_id(&id));
        store.set(name, {id.bytes, sizeof id.bytes});
    }
    store.get(name).copy(id.bytes, sizeof id.bytes);
    Config config;
    config.blocking = kind == Kind::blocking ? 1 : 0;
    const auto result =
        nccl_.comm_init_rank_config(&comm_, world.world_size, id, world.rank, &config);
    if (result == Result::in_progress)
        await_ready();
    else
        require(result);
}

void ByHand::all_reduce(void* data, std::size_t count) {
    namespace abi = ddprun::nccl::abi;
    const auto result =
        nccl_.all_reduce(data, data, count, abi::Type::float32, abi::Op::sum, comm_, stream_);
    if (result == Result::in_progress)
        await_ready();
    else
        require(result);
}

std::optional<std::string> ByHand::async_error() const {
    auto state = Result::success;
    const auto asked = nccl_.comm_get_async_error(comm_, &state);
    if (asked != Result::success) state = asked;
    if (state == Result::success || state == Result::in_progress) return {};
    return nccl_.describe(state);
}

void ByHand::abort() {
    require(nccl_.comm_abort(std::exchange(comm_, nullptr)));
}

void ByHand::end() {
    const auto result = nccl_.comm_finalize(comm_);
    if (result == Result::in_progress)
        await_ready();
    else
        require(result);
    require(nccl_.comm_destroy(std::exchange(comm_, nullptr)));
    const auto ended = name_ + "/ended/";
    store_.set(ended + std::to_string(world_.rank), "ended");
    for (int rank = 0; rank < world_.world_size; ++rank)
        store_.get(ended + std::to_string(rank));
}

void ByHand::require(Result result) {
    if (result != Result::success) throw std::runtime_error(nccl_.describe(result));
}

void ByHand::await_ready() {
    auto state = Result::in_progress;
    while (state == Result::in_progress)
        require(nccl_.comm_get_async_error(comm_, &state));
    require(state);
}

}  // namespace gpu_check
