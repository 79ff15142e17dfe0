// SPDX-License-Identifier: Apache-2.0
// Prints the numbers of its open descriptors in one line: "0 1 2".
#include <fcntl.h>
#include <stdio.h>

int main(void) {
    int number;
    const char* space = "";
    for (number = 0; number < 4096; ++number) {
        if (fcntl(number, F_GETFD) == -1) continue;
        printf("%s%d", space, number);
        space = " ";
    }
    printf("\n");
    return 0;
}
