// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/transports/nccl/nccl_abi.hpp"

#include <optional>

namespace fake_gpu {

/// The fault injected into a call of NCCL, if any:
///
///   FAKE_NCCL_FAIL=NAME:CODE    every call of that name returns CODE at once
///   FAKE_NCCL_FAIL=NAME:CODE:N  ... from the N-th in this process on
///   FAKE_NCCL_STUCK=NAME        calls of that name never return
std::optional<ddprun::nccl::abi::Result> injected_fault(const char* call);

}  // namespace fake_gpu
