// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/host_script.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace ddprun::launcher {
namespace host_script {
namespace {

constexpr const char* with_colour = ",colour";

std::string mark_of(const std::string& token) {
    return "ddprun-host " + token + ' ';
}

/// Names a shell can assign. Some that it cannot are assigned by a shell itself and read-only.
bool is_assignable(const std::string& name) {
    constexpr std::array<std::string_view, 7> read_only{
        "UID", "EUID", "PPID", "GROUPS", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO"};
    const bool is_word = std::all_of(
        name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    return is_word && !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
           std::find(read_only.begin(), read_only.end(), name) == read_only.end();
}

bool belongs_to_machine(std::string_view name) {
    constexpr std::array<std::string_view, 15> names{
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "MAIL",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
        "HOSTNAME",
        "HOST",
        "DISPLAY",
        "XAUTHORITY",
        "TMPDIR",
        "TORCHELASTIC_ERROR_FILE"};
    // PET_ variables are among the arguments, and PET_HOSTS would start hosts from each host.
    constexpr std::array<std::string_view, 6> prefixes{
        "SSH_", "XDG_", "DBUS_", "SLURM_", "PET_", host_link_variable};
    return std::find(names.begin(), names.end(), name) != names.end() ||
           std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view prefix) {
               return name.starts_with(prefix);
           });
}

/// The program is named by its content: a copy that is there is the right one. It is put there in
/// one step, so that a copy that is there is whole. `head` reads no byte more than it is asked for.
constexpr std::string_view question = R"(main() {
say() { printf '\nddprun-host %s %s\n' "$token" "$*"; }
fail() { say cannot "$*"; exit 1; }
cd -- "$folder" 2>/dev/null || fail "there is no folder $folder"
cache=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/ddprun/$sum
program=$cache/ddprun
if [ ! -x "$program" ]; then
  has=$(uname -m)
  [ "$has" = "$machine" ] || fail "its processor is $has, and this ddprun is for $machine"
  (umask 077 && mkdir -p "$cache") 2>/dev/null || fail "cannot make the folder $cache"
  command -v sha256sum >/dev/null || fail "there is no sha256sum"
  copy=$cache/$token
  say lacks
  (umask 077 && head -c "$size" >"$copy") 2>/dev/null || { rm -f "$copy"; fail "cannot write $copy"; }
  is=$(sha256sum <"$copy")
  [ "${is%% *}" = "$sum" ] || { rm -f "$copy"; fail "the copy of ddprun in $cache is damaged"; }
  chmod 700 "$copy" && "$copy" --version >/dev/null 2>&1 </dev/null ||
    { rm -f "$copy"; fail "cannot execute a program in $cache"; }
  mv -f "$copy" "$program" || fail "cannot write $program"
fi
say ready
IFS= read -r length || exit 1
start=$(head -c "$length") && eval "$start"
}
main
)";

}  // namespace
}  // namespace host_script

std::string describe(const HostLink& link) {
    return link.token + std::string{link.has_colour ? host_script::with_colour : ""};
}

std::optional<HostLink> read_host_link(const Environment& environment) {
    const auto text = value_of(environment, host_link_variable);
    if (!text) return std::nullopt;
    const bool has_colour = text->ends_with(host_script::with_colour);
    return HostLink{std::string{text->substr(0, text->find(','))}, has_colour};
}

std::string question_script(const HostQuestion& asked) {
    const auto assign = [](const char* name, const std::string& value) {
        return std::string{name} + '=' + shell_word(value) + '\n';
    };
    return assign("token", asked.token) + assign("folder", asked.folder) +
           assign("sum", asked.sum) + assign("size", std::to_string(asked.size)) +
           assign("machine", asked.machine) + std::string{host_script::question};
}

std::string start_script(
    const Environment& environment,
    const std::string& python,
    const std::vector<std::string>& arguments) {
    std::string text;
    for (const auto& [name, value] : environment) {
        if (!host_script::is_assignable(name)) continue;
        // This machine's folders first, and behind them what the host has besides.
        const auto behind = name == "PATH" ? std::string{"${PATH:+:$PATH}"} : std::string{};
        text += "export " + name + '=' + shell_word(value) + behind + '\n';
    }
    text += "set --";
    for (const auto& argument : arguments)
        text += ' ' + shell_word(argument);
    text += '\n';
    if (!python.empty())
        text += "[ ! -x " + shell_word(python) + " ] || set -- --python=" + shell_word(python) +
                " \"$@\"\n";
    text += "exec \"$program\" \"$@\"\n";
    return std::to_string(text.size()) + '\n' + text;
}

Environment environment_for_hosts(const Environment& environment) {
    auto kept = environment;
    std::erase_if(
        kept, [](const auto& entry) { return host_script::belongs_to_machine(entry.first); });
    return kept;
}

AnswerReader::AnswerReader(const std::string& token) : mark_(host_script::mark_of(token)) {}

void AnswerReader::append(std::string_view bytes) {
    buffer_ += bytes;
    if (buffer_.size() > limits::max_host_answer_bytes)
        buffer_.erase(0, buffer_.size() - limits::max_host_answer_bytes);
}

std::optional<HostAnswer> AnswerReader::next() {
    const auto begin = buffer_.find(mark_);
    if (begin == std::string::npos) return std::nullopt;
    const auto end = buffer_.find('\n', begin);
    if (end == std::string::npos) return std::nullopt;
    const auto from = begin + mark_.size();
    const auto line = buffer_.substr(from, end - from);
    buffer_.erase(0, end + 1);
    if (line == "lacks") return HostAnswer{HostLacks{}};
    if (line == "ready") return HostAnswer{HostIsReady{}};
    constexpr std::string_view cannot = "cannot ";
    return HostAnswer{HostCannot{line.starts_with(cannot) ? line.substr(cannot.size()) : line}};
}

}  // namespace ddprun::launcher
