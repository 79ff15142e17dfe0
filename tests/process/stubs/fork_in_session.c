// SPDX-License-Identifier: Apache-2.0
// Starts a child that stays in this session, in its own group, prints "child PID" and exits.
#include <stdio.h>
#include <unistd.h>

int main(void) {
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) pause();
    }
    setpgid(pid, pid);
    printf("child %d\n", pid);
    return 0;
}
