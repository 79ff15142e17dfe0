// SPDX-License-Identifier: Apache-2.0
// Prints "ready PID", ignores SIGTERM, and stays.
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    signal(SIGTERM, SIG_IGN);
    printf("ready %d\n", getpid());
    fflush(stdout);
    for (;;) pause();
}
