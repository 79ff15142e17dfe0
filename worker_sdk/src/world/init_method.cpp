// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/world/init_method.hpp"

#include "ddprun/error.hpp"
#include "rendezvous/base/limits.hpp"
#include "worker_sdk/src/world/numbers.hpp"

#include <limits>

namespace ddprun {
namespace {

constexpr std::string_view env = "env://";
constexpr std::string_view tcp = "tcp://";
constexpr std::string_view file = "file://";
/// Longer than any path that can be opened, but short enough for ddprun_world.
constexpr std::size_t longest = 4000;

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
    throw UsageError(
        "init method " + std::string{text.substr(0, 128)} + ": " + why +
        "; accepted are env://, tcp://HOST:PORT?rank=R&world_size=W and "
        "file:///PATH?rank=R&world_size=W");
}

/// The text before `mark`; `text` becomes the text after it.
std::string_view cut(std::string_view& text, char mark) {
    const auto place = text.find(mark);
    const auto before = text.substr(0, place);
    text = place == std::string_view::npos ? std::string_view{} : text.substr(place + 1);
    return before;
}

void read_settings(InitMethod& method, std::string_view settings) {
    while (!settings.empty()) {
        auto value = cut(settings, '&');
        const auto name = cut(value, '=');
        constexpr int most = std::numeric_limits<int>::max();
        if (name == "rank")
            method.rank = number_between(value, "rank", 0, most);
        else if (name == "world_size")
            method.world_size = number_between(value, "world_size", 1, most);
        else
            refuse(method.text, "unknown setting \"" + std::string{name.substr(0, 64)} + "\"");
    }
}

void read_endpoint(InitMethod& method, std::string_view place) {
    const auto endpoint = parse_endpoint(place, 0);
    if (!endpoint || endpoint->port == 0 || place.starts_with(':'))
        refuse(method.text, "a host and a port are needed");
    if (endpoint->host.size() > limits::max_name_bytes) refuse(method.text, "the host is too long");
    method.endpoint = *endpoint;
}

}  // namespace

InitMethod parse_init_method(std::string_view text) {
    InitMethod method;
    method.text = text.substr(0, longest);
    if (text.size() > longest) refuse(text, "it is too long");
    if (text.empty() || text == env) return method;

    auto rest = text;
    if (text.starts_with(tcp)) {
        method.kind = InitMethod::Kind::tcp;
        rest.remove_prefix(tcp.size());
        auto place = cut(rest, '?');
        if (place.ends_with('/')) place.remove_suffix(1);
        read_endpoint(method, place);
    } else if (text.starts_with(file)) {
        method.kind = InitMethod::Kind::file;
        rest.remove_prefix(file.size());
        method.path = cut(rest, '?');
        if (!method.path.starts_with('/'))
            refuse(text, "the path must be absolute (three slashes)");
    } else {
        refuse(text, "unknown kind");
    }
    read_settings(method, rest);
    return method;
}

}  // namespace ddprun
