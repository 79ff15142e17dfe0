// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/service_manager.hpp"

#include "rendezvous/base/log.hpp"
#include "rendezvous/base/result.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace ddprun::server {
namespace {

/// A limit, so that a manager that is stopped does not block its services.
constexpr timeval longest_send{1, 0};

/// Returns zero or an error number.
int send_datagram(const std::string& name, std::string_view text) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const bool is_abstract = name.front() == '@';
    if (!is_abstract && name.front() != '/') return EAFNOSUPPORT;
    if (name.size() >= sizeof address.sun_path) return ENAMETOOLONG;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (is_abstract) address.sun_path[0] = '\0';
    const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket < 0) return errno;
    ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &longest_send, sizeof longest_send);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    const auto sent = ::sendto(
        socket,
        text.data(),
        text.size(),
        MSG_NOSIGNAL,
        reinterpret_cast<const sockaddr*>(&address),
        size);
    const int error = sent < 0 ? errno : 0;
    ::close(socket);
    return error;
}

}  // namespace

std::variant<Activation, std::string> take_activation() {
    auto activation = read_activation(
        [](const char* name) -> std::optional<std::string> {
            const char* const value = std::getenv(name);
            if (value == nullptr) return std::nullopt;
            return value;
        },
        ::getpid());
    for (const auto* name : activation_variables)
        ::unsetenv(name);
    return activation;
}

void notify_manager(const std::string& socket, std::string_view state) {
    if (socket.empty()) return;
    if (const int error = send_datagram(socket, state); error != 0)
        log::warning(
            "rendezvous.manager_not_notified",
            {{"socket", socket}, {"state", state}, {"error", system_code(error).message()}});
}

}  // namespace ddprun::server
