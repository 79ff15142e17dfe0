// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/worker_command.hpp"

#include <optional>
#include <string_view>
#include <utility>

namespace ddprun::launcher {
namespace {

bool is_program(const PathLook& look) {
    return look.exists && !look.is_directory && look.is_executable;
}

Failure refusal(int number, const std::string& what, const std::string& advice) {
    return {system_code(number), what + "\n" + advice};
}

std::string joined(const std::string& folder, const std::string& name) {
    if (folder.empty()) return "./" + name;  // an empty entry of PATH is the current folder
    return folder.ends_with('/') ? folder + name : folder + "/" + name;
}

/// As execvp searches, but without starting anything.
class Search {
public:
    Search(const Environment& environment, const LookAt& look_at)
        : path_(value_of(environment, "PATH").value_or("/usr/local/bin:/usr/bin:/bin")),
          look_at_(look_at) {}

    /// The program called `name`, searched in PATH unless it has a slash. `is_blocked` is set when
    /// something of that name is there but cannot be executed.
    std::optional<std::string> find(const std::string& name, bool& is_blocked) const {
        if (name.find('/') != std::string::npos) return accept(name, is_blocked);
        auto rest = path_;
        while (true) {
            const auto colon = rest.find(':');
            if (auto found = accept(joined(std::string{rest.substr(0, colon)}, name), is_blocked))
                return found;
            if (colon == std::string_view::npos) return std::nullopt;
            rest.remove_prefix(colon + 1);
        }
    }

private:
    std::optional<std::string> accept(const std::string& path, bool& is_blocked) const {
        const auto look = look_at_(path);
        if (is_program(look)) return path;
        if (look.exists) is_blocked = true;
        return std::nullopt;
    }

    std::string_view path_;
    const LookAt& look_at_;
};

struct FoundPython {
    std::string path;
    std::string origin;
};

Result<FoundPython> named_python(
    const std::string& name, const std::string& origin, const Search& search) {
    bool is_blocked = false;
    if (auto found = search.find(name, is_blocked)) return FoundPython{*found, origin};
    return refusal(
        is_blocked ? EACCES : ENOENT,
        origin + ": " + name + ": " + (is_blocked ? "cannot be executed" : "not found"),
        "give the path of a Python interpreter");
}

/// The folder that holds ddprun, if it is the bin folder of an environment.
std::optional<std::string> own_environment_bin(const std::string& own_path, const LookAt& look_at) {
    const auto slash = own_path.rfind('/');
    if (slash == std::string::npos) return std::nullopt;
    auto bin = own_path.substr(0, slash);
    if (look_at(bin + "/../pyvenv.cfg").exists || look_at(bin + "/../conda-meta").exists)
        return bin;
    return std::nullopt;
}

/// In the order of docs/command-line.md: what was given, then the nearest interpreter.
Result<FoundPython> find_python(
    const CommandRequest& request, const Environment& environment, const LookAt& look_at) {
    const Search search(environment, look_at);
    if (!request.python.empty()) return named_python(request.python, "--python", search);
    if (const auto named = value_of(environment, "PYTHON_EXEC"))
        return named_python(std::string{*named}, "PYTHON_EXEC", search);

    std::vector<std::pair<std::string, std::string>> places;
    if (const auto bin = own_environment_bin(request.own_path, look_at))
        places.emplace_back(*bin + "/python", "beside ddprun, in its environment");
    for (const auto* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
        if (const auto folder = value_of(environment, variable))
            places.emplace_back(
                joined(std::string{*folder}, "bin/python"), "$" + std::string{variable});
    for (const auto& [path, origin] : places)
        if (is_program(look_at(path))) return FoundPython{path, origin};

    bool is_blocked = false;
    for (const auto* name : {"python3", "python"})
        if (auto found = search.find(name, is_blocked))
            return FoundPython{*found, std::string{name} + " on PATH"};
    return refusal(
        ENOENT,
        "no Python interpreter found in an environment or on PATH",
        "give one with --python, or run a program with --no-python");
}

Result<> check_script(const std::string& script, const LookAt& look_at) {
    if (script == "-") return {};
    const auto look = look_at(script);
    if (!look.exists)
        return refusal(
            ENOENT,
            script + ": script not found",
            "give its path from here, or -m for a module, or --no-python for a program on PATH");
    if (look.is_directory && !look_at(joined(script, "__main__.py")).exists)
        return refusal(
            EISDIR, script + ": is a directory without a __main__.py", "give the path of a script");
    if (!look.is_readable)
        return refusal(
            EACCES, script + ": no permission to read it", "change its mode, or run as its owner");
    return {};
}

Result<WorkerCommand> program_command(
    const CommandRequest& request, const Environment& environment, const LookAt& look_at) {
    const auto& name = request.words.front();
    bool is_blocked = false;
    if (auto found = Search(environment, look_at).find(name, is_blocked))
        return WorkerCommand{*found, request.words, ""};
    const bool has_slash = name.find('/') != std::string::npos;
    if (has_slash && look_at(name).is_directory)
        return refusal(EISDIR, name + ": is a directory", "give the path of a program");
    if (is_blocked)
        return refusal(
            EACCES,
            name + ": cannot be executed",
            "chmod +x it, or leave --no-python out if it is a Python script");
    return refusal(
        ENOENT,
        name + ": program not found" + (has_slash ? "" : " on PATH"),
        "give its path, with a slash if it lies in this folder");
}

/// A compiled program, which no interpreter can run.
Result<WorkerCommand> machine_code_command(const CommandRequest& request, const PathLook& look) {
    const auto& path = request.words.front();
    if (!is_program(look))
        return refusal(
            EACCES, path + ": is a compiled program that cannot be executed", "chmod +x it");
    const bool has_slash = path.find('/') != std::string::npos;
    return WorkerCommand{has_slash ? path : joined("", path), request.words, ""};
}

}  // namespace

Result<WorkerCommand> find_worker_command(
    const CommandRequest& request, const Environment& environment, const LookAt& look_at) {
    if (request.is_program) return program_command(request, environment, look_at);
    if (!request.is_module) {
        const auto& script = request.words.front();
        if (auto checked = check_script(script, look_at); !checked) return checked.error();
        if (const auto look = look_at(script); look.is_machine_code)
            return machine_code_command(request, look);
    }
    const auto python = find_python(request, environment, look_at);
    if (!python) return python.error();

    // The environment's own python must see the path it was started by: it finds its packages
    // from there. So argv[0] is the path and links are not followed.
    WorkerCommand command{python->path, {python->path, "-u"}, python->origin};
    if (request.is_module) command.arguments.emplace_back("-m");
    command.arguments.insert(command.arguments.end(), request.words.begin(), request.words.end());
    return command;
}

}  // namespace ddprun::launcher
