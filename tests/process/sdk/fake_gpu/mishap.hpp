// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/transports/nccl/nccl_abi.hpp"

#include <optional>

namespace fake_gpu {

/// What is to happen in a call of NCCL's instead of its work:
///
///   FAKE_NCCL_FAIL=NAME:CODE    every call of that name returns CODE at once
///   FAKE_NCCL_FAIL=NAME:CODE:N  ... from the N-th in this process on
///   FAKE_NCCL_STUCK=NAME        calls of that name never return
std::optional<ddprun::nccl::abi::Result> mishap(const char* call);

}  // namespace fake_gpu
