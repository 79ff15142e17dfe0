// SPDX-License-Identifier: Apache-2.0
#include "agent/process/inherited_state.hpp"
#include "launcher/ctl/run_ctl.hpp"
#include "launcher/run_job.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/net/threads.hpp"

#include <nss.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
    // Other name modules would be loaded into the static program and crash it.
    __nss_configure_lookup("hosts", "files dns");
    const auto start = ddprun::agent::InheritedState::capture();
    try {
        if (argc > 0 && ddprun::launcher::ctl::is_called_ctl(argv[0]))
            return ddprun::launcher::ctl::run_ctl(argc, argv);
        return ddprun::launcher::run(argc, argv, environ, start);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ddprun: %s\n", ddprun::net::describe_fatal(error).c_str());
        return ddprun::exit_codes::internal_error;
    }
}
