// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/store_loop.hpp"

#include "rendezvous/base/log.hpp"
#include "rendezvous/base/memory_reserve.hpp"

#include <new>

namespace ddprun::server {
namespace {

void log_out_of_memory() {
    try {
        log::error("store.out_of_memory");
    } catch (const std::bad_alloc&) {
    }
    keep_memory_reserve();
}

}  // namespace

void run_store_loop(boost::asio::io_context& io) {
    for (;;) {
        try {
            io.run();
            return;
        } catch (const std::bad_alloc&) {
            log_out_of_memory();
        }
    }
}

}  // namespace ddprun::server
