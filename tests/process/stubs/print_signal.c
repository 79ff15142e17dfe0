// SPDX-License-Identifier: Apache-2.0
// print_signal exit|stay: prints "up", then "got signal" for each SIGINT or SIGTERM; `exit` leaves
// with 0 at the first. It has no child, so nothing else has to end.
#include <signal.h>
#include <string.h>
#include <unistd.h>

static int leaves;

static void print(int signal) {
    (void)signal;
    if (write(1, "got signal\n", 11) != 11 || leaves) _exit(0);
}

int main(int argc, char** argv) {
    leaves = argc > 1 && strcmp(argv[1], "exit") == 0;
    struct sigaction action = {.sa_handler = print};
    sigaction(SIGINT, &action, 0);
    sigaction(SIGTERM, &action, 0);
    if (write(1, "up\n", 3) != 3) return 1;
    for (;;)
        pause();
}
