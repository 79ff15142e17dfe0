// SPDX-License-Identifier: Apache-2.0
// Starts a child that stays in this session, in a group of its own, prints "child PID" and leaves.
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
