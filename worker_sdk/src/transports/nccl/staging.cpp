// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/staging.hpp"

#include <string.h>

#include <algorithm>
#include <utility>

namespace ddprun::nccl {

namespace {

using Status = DriverFunctions::Status;
using Kind = groups::Collective::Kind;

constexpr std::size_t first_room = 4096;

}  // namespace

Staging::~Staging() {
    const OnDevice here(device_);
    for (const auto& place : places_)
        if (place.there) device_.driver().memory_free(place.there);
}

Status Staging::send(groups::Collective& collective, int rank, int world_size, const Queue& queue) {
    const auto part = collective.bytes();
    const bool is_gathered = collective.kind == Kind::all_gather || collective.kind == Kind::split;
    bytes_ = is_gathered ? part * static_cast<std::size_t>(world_size) : part;
    if (const auto status = make_room(bytes_)) return status;
    const auto& place = places_.back();
    const void* const from = is_gathered ? collective.input : collective.data;
    const auto offset = is_gathered ? part * static_cast<std::size_t>(rank) : 0;
    collective.is_on_host = false;
    collective.data = reinterpret_cast<void*>(place.there);
    collective.input = reinterpret_cast<void*>(place.there + offset);
    if (part == 0) return 0;
    ::memcpy(place.here->data() + offset, from, part);
    return device_.driver().copy_to_device(
        place.there + offset, place.here->data() + offset, part, queue.stream());
}

Status Staging::fetch(const Queue& queue) {
    const auto& place = places_.back();
    if (bytes_ > 0)
        if (const auto status = device_.driver().copy_to_host(
                place.here->data(), place.there, bytes_, queue.stream()))
            return status;
    return queue.mark_end();
}

void Staging::take(const groups::Collective& collective) const {
    if (bytes_ > 0) ::memcpy(collective.data, places_.back().here->data(), bytes_);
}

Status Staging::make_room(std::size_t bytes) {
    if (!places_.empty() && places_.back().bytes >= bytes) return 0;
    Place place;
    place.bytes = std::max(bytes, places_.empty() ? first_room : 2 * places_.back().bytes);
    place.here = std::make_unique<Pinned>(device_, place.bytes);
    if (const auto status = place.here->status()) return status;
    if (const auto status = device_.driver().memory_allocate(&place.there, place.bytes))
        return status;
    places_.push_back(std::move(place));
    return 0;
}

}  // namespace ddprun::nccl
