// SPDX-License-Identifier: Apache-2.0
#include "launcher/run_job.hpp"

#include <nss.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
    // Other name modules would be loaded into the static program and crash it.
    __nss_configure_lookup("hosts", "files dns");
    try {
        return ddprun::launcher::run(argc, argv, environ);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ddprun: internal error: %s\n", error.what());
        return 1;
    }
}
