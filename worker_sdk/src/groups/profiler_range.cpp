// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/profiler_range.hpp"

#ifdef DDPRUN_HAS_NVTX
#include <nvtx3/nvToolsExt.h>

#include <new>
#include <string>
#endif

namespace ddprun::groups {

#ifdef DDPRUN_HAS_NVTX

namespace {

/// Null: no profiler is attached.
nvtxDomainHandle_t domain() {
    static const nvtxDomainHandle_t handle = nvtxDomainCreateA("ddprun");
    return handle;
}

}  // namespace

void ProfilerRange::prepare() {
    domain();
}

ProfilerRange::ProfilerRange(const Collective& collective) noexcept {
    if (domain() == nullptr) return;
    try {
        const auto text = describe(collective);
        nvtxEventAttributes_t attributes{};
        attributes.version = NVTX_VERSION;
        attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
        attributes.message.ascii = text.c_str();
        id_ = nvtxDomainRangeStartEx(domain(), &attributes);
    } catch (const std::bad_alloc&) {
    }
}

void ProfilerRange::end() noexcept {
    if (!id_) return;
    nvtxDomainRangeEnd(domain(), *id_);
    id_.reset();
}

#else

void ProfilerRange::prepare() {}
ProfilerRange::ProfilerRange(const Collective&) noexcept {}
void ProfilerRange::end() noexcept {}

#endif

}  // namespace ddprun::groups
