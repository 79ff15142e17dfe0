// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/wire/encoder.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// What the programs of the store bench send to a server, and how they count.
namespace ddprun::store_load {

using Seconds = std::chrono::duration<double>;

/// Bytes to send, and the number of bytes in the reply.
struct Exchange {
    std::string question;
    std::size_t answer_bytes = 0;
};

struct Load {
    /// Sent once, when the connection begins.
    std::vector<Exchange> preparation;
    /// Sent repeatedly.
    Exchange repeated;
    /// How many operations `repeated` counts for.
    int operations = 1;
};

/// "get", "set", ... of the c10d store; "redis_get", "redis_set"; "raw_get": the bytes of "get"
/// without any preparation, for a server that does not read them. The bytes of a case have the same
/// length on every connection.
Load make_load(const std::string& name, int connection);

std::string bytes_of(const std::vector<wire::Request>& requests);

[[noreturn]] void die(const char* what);

/// Connects on the loopback. `from`: the last number of this end's address, 127.0.0.N.
int connect_to(std::uint16_t port, int from = 1);
void send_all(int descriptor, std::string_view bytes);
void receive_all(int descriptor, std::size_t bytes);
int prepared_connection(std::uint16_t port, const std::vector<Exchange>& preparation);
/// VALIDATE and PING, with which every client of PyTorch since 2.5 begins.
std::vector<Exchange> greeting();

/// CPU time of a process so far, in seconds.
double cpu_seconds(const std::string& pid);

}  // namespace ddprun::store_load
