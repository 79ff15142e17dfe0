// SPDX-License-Identifier: Apache-2.0
// Prints its arguments and its environment, one a line.
#include <stdio.h>

int main(int argc, char** argv, char** environment) {
    int i;
    for (i = 0; i < argc; ++i) printf("argument %s\n", argv[i]);
    for (; *environment != NULL; ++environment) printf("%s\n", *environment);
    return 0;
}
