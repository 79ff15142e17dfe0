// SPDX-License-Identifier: Apache-2.0
// fork_and_leave [stay]: starts a grandchild that has its own session, holds every descriptor and
// ignores all signals that it can. Prints "grandchild PID" and then exits, or stays.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
    int ready[2];
    char byte;
    pid_t pid;
    if (pipe(ready) != 0) return 1;
    pid = fork();
    if (pid == 0) {
        int number;
        setsid();
        for (number = 1; number < NSIG; ++number) signal(number, SIG_IGN);
        close(ready[0]);
        close(ready[1]);
        for (;;) pause();
    }
    close(ready[1]);
    while (read(ready[0], &byte, 1) > 0) {
    }
    printf("grandchild %d\n", pid);
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "stay") == 0)
        for (;;) pause();
    return 0;
}
