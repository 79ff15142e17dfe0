// SPDX-License-Identifier: Apache-2.0
#include "tests/process/sdk/fake_gpu/fault.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>

namespace fake_gpu {

using ddprun::nccl::abi::Result;

std::optional<Result> injected_fault(const char* call) {
    const char* stuck = ::getenv("FAKE_NCCL_STUCK");
    while (stuck && stuck == std::string{call})
        ::pause();
    const char* text = ::getenv("FAKE_NCCL_FAIL");
    if (!text) return {};
    char name[64] = "";
    int code = 0;
    int first = 1;
    if (std::sscanf(text, "%63[^:]:%d:%d", name, &code, &first) < 2) ::abort();
    if (name != std::string{call}) return {};
    static std::atomic<int> seen = 0;
    if (++seen < first) return {};
    return static_cast<Result>(code);
}

}  // namespace fake_gpu
