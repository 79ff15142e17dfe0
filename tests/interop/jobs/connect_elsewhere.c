// SPDX-License-Identifier: Apache-2.0
// Loaded into a program (LD_PRELOAD): every TCP connection that it makes goes to the port
// DDPRUN_TEST_PORT of the address it asked for, whatever port it asked for.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int connect(int descriptor, const struct sockaddr* address, socklen_t size) {
    int (*const real)(int, const struct sockaddr*, socklen_t) = dlsym(RTLD_NEXT, "connect");
    const char* const port = getenv("DDPRUN_TEST_PORT");
    struct sockaddr_storage other = {0};
    if (port == NULL || size > sizeof other) return real(descriptor, address, size);
    memcpy(&other, address, size);
    if (other.ss_family == AF_INET)
        ((struct sockaddr_in*)&other)->sin_port = htons((unsigned short)atoi(port));
    if (other.ss_family == AF_INET6)
        ((struct sockaddr_in6*)&other)->sin6_port = htons((unsigned short)atoi(port));
    return real(descriptor, (struct sockaddr*)&other, size);
}
