// SPDX-License-Identifier: Apache-2.0
#include "agent/process/hand_over.hpp"

#include "rendezvous/base/descriptor.hpp"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace ddprun::agent {
namespace {

constexpr std::size_t most_descriptors = 4;

bool write_whole(int file, std::string_view text) {
    while (!text.empty()) {
        const auto size = ::write(file, text.data(), text.size());
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(size));
    }
    return true;
}

}  // namespace

bool send_texts(int gate, const std::vector<std::string>& texts, std::span<const int> descriptors) {
    const Descriptor file{::memfd_create("ddprun", MFD_CLOEXEC)};
    if (!file) return false;
    std::string all;
    for (const auto& text : texts)
        all.append(text).push_back('\0');
    std::array<int, most_descriptors> given{};
    std::copy(descriptors.begin(), descriptors.end(), given.begin());
    given[descriptors.size()] = file.get();
    const auto given_bytes = (descriptors.size() + 1) * sizeof(int);

    char byte = '\n';
    iovec part{&byte, 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof given)> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(given_bytes);
    auto* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(given_bytes);
    std::memcpy(CMSG_DATA(header), given.data(), given_bytes);
    return write_whole(file.get(), all) && ::lseek(file.get(), 0, SEEK_SET) == 0 &&
           ::sendmsg(gate, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

bool hand_over(const SpawnSpec& spec) {
    std::error_code ignored;
    if (!spec.folder_to_make.empty())
        std::filesystem::create_directories(spec.folder_to_make, ignored);
    std::vector<std::string> texts{std::to_string(spec.arguments.size())};
    texts.insert(texts.end(), spec.arguments.begin(), spec.arguments.end());
    texts.insert(texts.end(), spec.environment.begin(), spec.environment.end());
    std::array<int, 3> streams{spec.standard_input, spec.standard_output, spec.standard_error};
    for (std::size_t i = 0; i < streams.size(); ++i)
        if (streams[i] == SpawnSpec::inherit) streams[i] = static_cast<int>(i);
    return send_texts(spec.parked->gate, texts, streams);
}

}  // namespace ddprun::agent
