// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/net/threads.hpp"
#include "rendezvous/server/daemon.hpp"

#include <nss.h>

#include <cstdio>
#include <exception>
#include <string>
#include <system_error>

int main(int argc, char** argv) {
    // Other name modules would be loaded into the static program and crash it.
    __nss_configure_lookup("hosts", "files dns");
    try {
        return ddprun::server::run_daemon(argc, argv);
    } catch (const std::system_error& error) {
        std::fprintf(
            stderr,
            "ddprun-rendezvous: %s\n",
            ddprun::net::describe_start_failure(
                error.code(), std::string{"internal error: "} + error.what())
                .c_str());
        return ddprun::exit_codes::internal_error;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ddprun-rendezvous: internal error: %s\n", error.what());
        return ddprun::exit_codes::internal_error;
    }
}
