// SPDX-License-Identifier: Apache-2.0
// give_sockets KIND... -- PROGRAM ARGUMENT...: becomes the program, with one descriptor of each
// kind from 3 on and the variables LISTEN_PID and LISTEN_FDS, as from a service manager. Prints a
// line "port N" for each "tcp".
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int is(const char* kind, const char* other) {
    return strcmp(kind, other) == 0;
}

static int on_loopback(int type, int is_listening) {
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    int descriptor = socket(AF_INET, type, 0);
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(descriptor, (struct sockaddr*)&address, sizeof address) != 0) exit(99);
    if (!is_listening) return descriptor;
    if (listen(descriptor, 16) != 0) exit(99);
    getsockname(descriptor, (struct sockaddr*)&address, &size);
    printf("port %d\n", ntohs(address.sin_port));
    return descriptor;
}

static int make(const char* kind) {
    if (is(kind, "tcp")) return on_loopback(SOCK_STREAM, 1);
    if (is(kind, "silent")) return on_loopback(SOCK_STREAM, 0);
    if (is(kind, "udp")) return on_loopback(SOCK_DGRAM, 0);
    if (is(kind, "unix")) return socket(AF_UNIX, SOCK_STREAM, 0);
    if (is(kind, "file")) return dup(STDIN_FILENO);
    exit(99);
}

int main(int argc, char** argv) {
    char text[32];
    int count = 0;
    while (count + 1 < argc && !is(argv[count + 1], "--")) ++count;
    for (int i = 0; i < count; ++i) {
        const int descriptor = make(argv[i + 1]);
        if (descriptor != 3 + i && dup2(descriptor, 3 + i) < 0) exit(99);
        if (descriptor != 3 + i) close(descriptor);
    }
    fflush(stdout);
    snprintf(text, sizeof text, "%d", (int)getpid());
    setenv("LISTEN_PID", text, 1);
    snprintf(text, sizeof text, "%d", count);
    setenv("LISTEN_FDS", text, 0);
    execv(argv[count + 2], argv + count + 2);
    return 98;
}
