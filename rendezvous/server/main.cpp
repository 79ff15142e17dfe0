// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/net/threads.hpp"
#include "rendezvous/server/daemon.hpp"

#include <nss.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
    // Any other module for names would be loaded into the static program and crash it.
    __nss_configure_lookup("hosts", "files dns");
    try {
        return ddprun::server::run_daemon(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ddprun-rendezvous: %s\n", ddprun::net::describe_fatal(error).c_str());
        return ddprun::exit_codes::internal_error;
    }
}
