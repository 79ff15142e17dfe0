// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/end_process.hpp"

#include "worker_sdk/src/record/error_file.hpp"

#include <unistd.h>

#include <cstdio>

namespace ddprun::nccl {

void end_process(const std::string& text) {
    const auto message = "PeerLost: " + text;
    std::fprintf(stderr, "ddprun: %s\n", message.c_str());
    record_errors::remember_path();
    record_errors::write_error_file({message.data(), message.size()}, {});
    ::_exit(1);
}

}  // namespace ddprun::nccl
