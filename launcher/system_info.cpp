// SPDX-License-Identifier: Apache-2.0
#include "launcher/system_info.hpp"

#include "agent/process/read_topology.hpp"
#include "launcher/program_lines.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/server/interfaces.hpp"

#include <elf.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace ddprun::launcher {
namespace {

Environment read_environment(const char* const* entries) {
    Environment environment;
    for (; *entries != nullptr; ++entries) {
        const std::string_view entry{*entries};
        const auto equals = entry.find('=');
        // Of a name given twice the first counts, as in getenv.
        if (equals != std::string_view::npos)
            environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
    return environment;
}

/// The path given to execve, made absolute: a relative one would be wrong after a change of folder.
std::string own_path() {
    const auto* name = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
    if (name == nullptr) return "";
    std::error_code ignored;
    const auto absolute = std::filesystem::absolute(name, ignored);
    return ignored ? std::string{name} : absolute.string();
}

std::string host_name() {
    std::array<char, 256> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

/// Counts by the kernel driver's list, or, if there is none (WSL, some containers), by
/// nvidia-smi's.
int count_gpus() {
    int count = 0;
    std::error_code error;
    for (std::filesystem::directory_iterator entry{"/proc/driver/nvidia/gpus", error}, end;
         !error && entry != end;
         entry.increment(error))
        ++count;
    return count > 0 ? count : count_lines_of({"nvidia-smi", "-L"}, "GPU ");
}

bool has_address(const std::string& name) {
    addrinfo* first = nullptr;
    if (getaddrinfo(name.c_str(), nullptr, nullptr, &first) != 0) return false;
    freeaddrinfo(first);
    return true;
}

std::string content_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>{file}, {}};
}

std::optional<std::string> read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text(limits::max_option_file_bytes, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (file.bad() || !file.eof()) return std::nullopt;
    text.resize(static_cast<std::size_t>(file.gcount()));
    return text;
}

/// Whether other programs' C library also looks up hosts elsewhere: in libnss-myhostname, for
/// example, which ddprun does not load.
bool has_other_name_sources() {
    std::istringstream lines(content_of("/etc/nsswitch.conf"));
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line.substr(0, line.find('#')));
        std::string word;
        if (!(words >> word) || word != "hosts:") continue;
        while (words >> word)
            if (word != "files" && word != "dns" && !word.starts_with('[')) return true;
    }
    return false;
}

/// As PyTorch chooses for Gloo: the first address that a socket can be bound to.
std::optional<std::string> own_name_address() {
    const std::optional<std::string> none =
        has_other_name_sources() ? std::nullopt : std::optional{std::string{}};
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* first = nullptr;
    if (getaddrinfo(host_name().c_str(), nullptr, &hints, &first) != 0) return none;
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner{first, &freeaddrinfo};
    for (const auto* entry = first; entry != nullptr; entry = entry->ai_next) {
        const int tried = ::socket(entry->ai_family, entry->ai_socktype | SOCK_CLOEXEC, 0);
        if (tried < 0) continue;
        const bool is_ours = ::bind(tried, entry->ai_addr, entry->ai_addrlen) == 0;
        ::close(tried);
        std::array<char, INET6_ADDRSTRLEN> text{};
        const int error = ::getnameinfo(
            entry->ai_addr,
            entry->ai_addrlen,
            text.data(),
            text.size(),
            nullptr,
            0,
            NI_NUMERICHOST);
        if (is_ours && error == 0) return text.data();
    }
    return none;
}

bool begins_as_machine_code(const std::string& path) {
    std::array<char, SELFMAG> start{};
    std::ifstream file(path, std::ios::binary);
    file.read(start.data(), start.size());
    return file.gcount() == SELFMAG && std::memcmp(start.data(), ELFMAG, SELFMAG) == 0;
}

PathLook look_at(const std::string& path) {
    struct stat status {};
    PathLook look;
    if (::stat(path.c_str(), &status) != 0) return look;
    look.exists = true;
    look.is_directory = S_ISDIR(status.st_mode);
    // Checked for the effective user, which will execute it. Root may "execute" any file with one x
    // bit.
    look.is_readable = ::eaccess(path.c_str(), R_OK) == 0;
    look.is_executable = ::eaccess(path.c_str(), X_OK) == 0;
    look.id = {status.st_dev, status.st_ino};
    look.is_machine_code = S_ISREG(status.st_mode) && begins_as_machine_code(path);
    return look;
}

}  // namespace

SystemInfo read_system_info(const char* const* environment) {
    SystemInfo system;
    system.environment = read_environment(environment);
    system.own_path = own_path();
    std::error_code ignored;
    system.own_target = std::filesystem::canonical("/proc/self/exe", ignored).string();
    system.host_name = host_name();
    system.own_cgroups = content_of("/proc/self/cgroup");
    system.parent_pid = ::getppid();
    system.parent_name = content_of("/proc/" + std::to_string(system.parent_pid) + "/comm");
    if (system.parent_name.ends_with('\n')) system.parent_name.pop_back();
    system.cpu_count = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
    system.count_gpus = count_gpus;
    system.interfaces = server::interfaces();
    system.has_address = has_address;
    system.read_hosts = [] { return content_of("/etc/hosts"); };
    system.read_file = read_file;
    system.own_name_address = own_name_address;
    system.has_terminal = ::isatty(STDERR_FILENO) == 1;
    system.has_input_terminal = ::isatty(STDIN_FILENO) == 1;
    auto random = seeded_by_the_system();
    system.fresh_id = make_nonce(random);
    system.look_at = look_at;
    system.read_topology = [] { return agent::read_topology(agent::allowed_cpus()); };
    return system;
}

}  // namespace ddprun::launcher
