// SPDX-License-Identifier: Apache-2.0
// Closes its output and stays: the end of a stream is not the end of a process.
#include <unistd.h>

int main(void) {
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    for (;;) pause();
}
