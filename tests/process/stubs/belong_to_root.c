// SPDX-License-Identifier: Apache-2.0
// A set-user-id program that only root may kill: becomes root entirely, ignores SIGTERM, prints
// "ready PID" and stays. Where set-user-id has no effect, it prints "not root" and exits.
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    if (setuid(0) != 0 || getuid() != 0) {
        puts("not root");
        return 0;
    }
    signal(SIGTERM, SIG_IGN);
    printf("ready %d\n", getpid());
    fflush(stdout);
    for (;;)
        pause();
}
