// SPDX-License-Identifier: Apache-2.0
// exit_with CODE | exit_with signal NUMBER: ends that way.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
    if (argc == 3 && strcmp(argv[1], "signal") == 0) {
        kill(getpid(), atoi(argv[2]));
        // A signal that does not end a process.
        return 99;
    }
    return argc == 2 ? atoi(argv[1]) : 98;
}
