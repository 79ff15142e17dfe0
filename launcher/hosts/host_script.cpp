// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/host_script.hpp"

#include "launcher/grammar/topology_file.hpp"
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

/// Whether a shell can assign to this name. A few names are read-only or assigned by the shell
/// itself.
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

/// The folder of the program is named after the program's content. The content is checked each
/// time, since an earlier copy may have been cut off by a full disk. Nothing is used from a folder
/// to which another user may write. Hosts with a shared home copy at the same time, each into a
/// separate file; one of these becomes the program, and is not replaced while other hosts execute
/// it. The folder's time is that of its last use (old_copies.hpp). `dd` never reads bytes of the
/// signals that follow the start. All names begin with `ddprun_`, so that none is one of the user's
/// variables.
constexpr std::string_view question = R"(ddprun_main() {
ddprun_say() { printf '\nddprun-host %s %s\n' "$ddprun_token" "$*"; }
ddprun_fail() { ddprun_say cannot "$*"; exit 1; }
ddprun_own() {
  (umask 077 && mkdir -p -m 700 -- "$1") 2>/dev/null || ddprun_fail "cannot make the folder $1"
  ddprun_is=$(ls -ld -- "$1" 2>/dev/null)
  case $ddprun_is in
    d????-??-*) [ -O "$1" ] && return ;;
  esac
  ddprun_fail "the folder $1 belongs to another user, or others may write to it"
}
ddprun_is_whole() {
  ddprun_is=$(sha256sum <"$1") && [ "${ddprun_is%% *}" = "$ddprun_sum" ]
}
ddprun_has_program() {
  [ -x "$ddprun_program" ] && ddprun_is_whole "$ddprun_program"
}
ddprun_drop() { rm -f "$ddprun_copy"; ddprun_fail "$*"; }
cd -- "$ddprun_folder" 2>/dev/null || ddprun_fail "there is no folder $ddprun_folder"
ddprun_is=$(uname -m)
[ "$ddprun_is" = "$ddprun_machine" ] ||
  ddprun_fail "its processor is $ddprun_is, and this ddprun is for $ddprun_machine"
command -v sha256sum >/dev/null || ddprun_fail "there is no sha256sum"
case ${XDG_CACHE_HOME-} in
  /*) ddprun_cache=$XDG_CACHE_HOME/ddprun ;;
  *) ddprun_cache=${HOME:-/nonexistent}/.cache/ddprun ;;
esac
ddprun_own "$ddprun_cache"
ddprun_cache=$ddprun_cache/$ddprun_sum
ddprun_own "$ddprun_cache"
ddprun_program=$ddprun_cache/ddprun
touch -- "$ddprun_cache" 2>/dev/null
if ! ddprun_has_program; then
  ddprun_copy=$(umask 077 && mktemp "$ddprun_cache/copy.XXXXXX" 2>/dev/null) ||
    ddprun_fail "cannot write to $ddprun_cache"
  ddprun_say lacks
  { head -c "$ddprun_size" >"$ddprun_copy"; } 2>/dev/null || ddprun_drop "cannot write $ddprun_copy"
  ddprun_is_whole "$ddprun_copy" || ddprun_drop "the copy of ddprun in $ddprun_cache is damaged"
  chmod 700 "$ddprun_copy" && "$ddprun_copy" --version >/dev/null 2>&1 </dev/null ||
    ddprun_drop "cannot execute a program in $ddprun_cache"
  ln "$ddprun_copy" "$ddprun_program" 2>/dev/null || ddprun_has_program ||
    mv -f "$ddprun_copy" "$ddprun_program" 2>/dev/null || ddprun_drop "cannot write $ddprun_program"
  rm -f "$ddprun_copy"
fi
ddprun_say ready
IFS= read -r ddprun_length || exit 1
ddprun_start=$(dd bs=1 count="$ddprun_length" 2>/dev/null)
case $ddprun_start in
  *"# $ddprun_token") eval "$ddprun_start" ;;
  *) exit 1 ;;
esac
}
ddprun_main
)";

/// A shell exports the variables that the login has exported, so the workers would inherit these.
constexpr const char* own_variables =
    "ddprun_token ddprun_folder ddprun_sum ddprun_size ddprun_machine ddprun_is ddprun_cache "
    "ddprun_program ddprun_copy ddprun_length ddprun_start";

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
    return assign("ddprun_token", asked.token) + assign("ddprun_folder", asked.folder) +
           assign("ddprun_sum", asked.sum) + assign("ddprun_size", std::to_string(asked.size)) +
           assign("ddprun_machine", asked.machine) + std::string{host_script::question};
}

std::string start_script(
    const std::string& token,
    const Environment& environment,
    const std::string& python,
    const std::vector<std::string>& arguments) {
    std::string text = "set --";
    for (const auto& argument : arguments)
        text += ' ' + shell_word(argument);
    text += '\n';
    if (!python.empty())
        text += "[ ! -x " + shell_word(python) + " ] || set -- --python=" + shell_word(python) +
                " \"$@\"\n";
    // Done before the user's variables are set, since these may have any name.
    text += "set -- \"$ddprun_program\" \"$@\"\nunset " + std::string{host_script::own_variables} +
            '\n';
    for (const auto& [name, value] : environment) {
        if (!host_script::is_assignable(name)) continue;
        // This machine's folders come first, followed by the host's other folders.
        const auto behind = name == "PATH" ? std::string{"\"${PATH:+:$PATH}\""} : std::string{};
        text += "export " + name + '=' + shell_word(value) + behind + '\n';
    }
    // A truncated start has another end, and is not executed.
    text += "exec \"$@\"\n# " + token + '\n';
    return std::to_string(text.size()) + '\n' + text;
}

Environment environment_for_hosts(const Environment& environment, std::string_view topology) {
    auto kept = environment;
    std::erase_if(
        kept, [](const auto& entry) { return host_script::belongs_to_machine(entry.first); });
    if (const auto name = topology_variable(topology)) kept.erase(std::string{*name});
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
