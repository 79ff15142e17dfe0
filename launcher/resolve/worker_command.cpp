// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/worker_command.hpp"

#include "launcher/ctl/ctl_table.hpp"

#include <algorithm>
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

/// Searches like execvp, without starting anything.
class Search {
public:
    Search(const Environment& environment, const LookAt& look_at)
        : path_(value_of(environment, "PATH").value_or("/usr/local/bin:/usr/bin:/bin")),
          look_at_(look_at) {}

    /// The program called `name`, searched in PATH unless it has a slash. Sets `is_blocked` when a
    /// file of that name exists but cannot be executed.
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
    /// Empty, or a warning that VIRTUAL_ENV or CONDA_PREFIX means another interpreter, or none.
    std::string warning;
};

Result<FoundPython> named_python(
    const std::string& name, const std::string& origin, const Search& search) {
    bool is_blocked = false;
    if (auto found = search.find(name, is_blocked)) return FoundPython{*found, origin, ""};
    return refusal(
        is_blocked ? EACCES : ENOENT,
        origin + ": " + name + ": " + (is_blocked ? "cannot be executed" : "not found"),
        "give the path of a Python interpreter");
}

std::string folder_of(const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
}

/// Chooses the interpreter in the order of docs/command-line.md: the given one, then the nearest.
class PythonChoice {
public:
    PythonChoice(
        const CommandRequest& request, const Environment& environment, const LookAt& look_at)
        : request_(request),
          environment_(environment),
          look_at_(look_at),
          search_(environment, look_at) {}

    Result<FoundPython> find() {
        if (!request_.python.empty()) return named_python(request_.python, "--python", search_);
        if (const auto named = value_of(environment_, "PYTHON_EXEC"))
            return named_python(std::string{*named}, "PYTHON_EXEC", search_);

        bool is_blocked = false;
        for (const auto* name : {"python3", "python"})
            if (!on_path_)
                if (auto found = search_.find(name, is_blocked))
                    on_path_ = FoundPython{*found, std::string{name} + " on PATH", ""};

        const auto own = folder_of(request_.own_path);
        const auto target = folder_of(request_.own_target);
        const bool is_linked = !target.empty() && target != own;
        add_environment(own, "beside ddprun, in its environment");
        add_active();
        if (is_linked) add_environment(target, "beside the target of " + request_.own_path);
        // A ddprun in conda's base serves every environment, and base is active in most shells by
        // default.
        std::stable_partition(places_.begin(), places_.end(), [this](const FoundPython& place) {
            return !is_of_conda_base(place);
        });
        const bool is_in_environment = !places_.empty() && !is_of_conda_base(places_.front());
        add_plain(own, "beside ddprun");
        if (is_linked) add_plain(target, "beside the target of " + request_.own_path);
        if (on_path_) places_.push_back(*on_path_);
        const auto lost = is_in_environment ? std::string{} : lost_environment();
        if (places_.empty())
            return refusal(
                ENOENT,
                "no Python interpreter found in an environment or on PATH" +
                    (lost.empty() ? "" : "; " + lost),
                "give one with --python, or run a program with --no-python");
        auto nearest = places_.front();
        if (!lost.empty())
            nearest.warning =
                lost + ": the workers run with " + nearest.path + "; --python chooses another one";
        return nearest;
    }

private:
    bool is_environment(const std::string& bin) const {
        return look_at_(bin + "/../pyvenv.cfg").exists || look_at_(bin + "/../conda-meta").exists;
    }

    bool is_of_conda_base(const FoundPython& place) const {
        return look_at_(folder_of(place.path) + "/../condabin").exists;
    }

    std::optional<std::string> python_of(std::string_view environment) const {
        for (const auto* name : {"bin/python", "bin/python3"})
            if (auto python = joined(std::string{environment}, name); is_program(look_at_(python)))
                return python;
        return std::nullopt;
    }

    void add_environment(const std::string& bin, const std::string& origin) {
        const auto python = bin + "/python";
        if (!bin.empty() && is_environment(bin) && is_program(look_at_(python)))
            places_.push_back({python, origin, ""});
    }

    /// The interpreter of a folder into which programs were installed. The system's own folders do
    /// not count: their programs may belong to any Python.
    void add_plain(const std::string& bin, const std::string& origin) {
        if (bin.empty() || bin == "/usr/bin" || bin == "/bin") return;
        for (const auto* name : {"/python3", "/python"})
            if (is_program(look_at_(bin + name))) {
                places_.push_back({bin + name, origin, ""});
                return;
            }
    }

    /// Adds the active environment; in a container it may be on PATH only. A variable can be older
    /// than PATH, so the variable that agrees with PATH counts. If none agrees: another environment
    /// on PATH, else the variable's.
    void add_active() {
        std::vector<FoundPython> named;
        for (const auto* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
            if (const auto folder = value_of(environment_, variable))
                if (auto python = python_of(*folder))
                    named.push_back({std::move(*python), "$" + std::string{variable}, ""});
        const bool is_first_on_path = on_path_ && is_environment(folder_of(on_path_->path));
        if (named.empty()) {
            if (is_first_on_path) places_.push_back(*on_path_);
            return;
        }
        const auto agreeing = std::find_if(named.begin(), named.end(), [this](const auto& place) {
            return on_path_ && is_same_folder(folder_of(place.path), folder_of(on_path_->path));
        });
        auto active = named.front();
        if (agreeing != named.end())
            active = *agreeing;
        else if (is_first_on_path)
            active = *on_path_;
        // A shim (pyenv, asdf, mise) starts the interpreter that the environment selects.
        const bool is_shim = on_path_ && folder_of(on_path_->path).ends_with("/shims");
        if (on_path_ && !is_shim && agreeing != named.begin()) {
            const auto& stale = named.front();
            active.warning = stale.origin.substr(1) + " means " + stale.path + ", but " +
                             on_path_->origin + " is " + on_path_->path +
                             ": the workers run with " + active.path +
                             "; --python chooses another one";
        }
        places_.push_back(active);
    }

    /// Says that the active environment is gone, else empty. One of conda need not have a Python.
    std::string lost_environment() const {
        const auto folder = value_of(environment_, "VIRTUAL_ENV");
        if (!folder || folder->empty() || python_of(*folder)) return {};
        return "VIRTUAL_ENV names an environment without a Python, " + std::string{*folder};
    }

    bool is_same_folder(const std::string& left, const std::string& right) const {
        return left == right || (look_at_(left).exists && look_at_(left).id == look_at_(right).id);
    }

    const CommandRequest& request_;
    const Environment& environment_;
    const LookAt& look_at_;
    const Search search_;
    std::optional<FoundPython> on_path_;
    /// Nearest first.
    std::vector<FoundPython> places_;
};

/// `ddprun ps` means a script named `ps`; if there is none, the user probably meant the program.
std::string advice_without(const std::string& script) {
    for (const auto& row : ctl::command_table())
        if (row.name == script) return "did you mean ddprunctl " + script + "?";
    return "give its path from here, or -m for a module, or --no-python for a program on PATH";
}

Result<> check_script(const std::string& script, const LookAt& look_at) {
    if (script == "-") return {};
    const auto look = look_at(script);
    if (!look.exists) return refusal(ENOENT, script + ": script not found", advice_without(script));
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
        return WorkerCommand{*found, request.words, "", ""};
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

/// Handles a compiled program, which no interpreter can run.
Result<WorkerCommand> machine_code_command(const CommandRequest& request, const PathLook& look) {
    const auto& path = request.words.front();
    if (!is_program(look))
        return refusal(
            EACCES, path + ": is a compiled program that cannot be executed", "chmod +x it");
    const bool has_slash = path.find('/') != std::string::npos;
    return WorkerCommand{has_slash ? path : joined("", path), request.words, "", ""};
}

}  // namespace

Result<std::string> find_program(
    const std::string& name, const Environment& environment, const LookAt& look_at) {
    bool is_blocked = false;
    if (auto found = Search(environment, look_at).find(name, is_blocked)) return *found;
    const bool has_slash = name.find('/') != std::string::npos;
    if (is_blocked) return refusal(EACCES, name + ": cannot be executed", "chmod +x it");
    return refusal(
        ENOENT,
        name + ": program not found" + (has_slash ? "" : " on PATH"),
        "give its path, with a slash if it lies in this folder");
}

Result<WorkerCommand> find_worker_command(
    const CommandRequest& request, const Environment& environment, const LookAt& look_at) {
    if (request.is_program) return program_command(request, environment, look_at);
    if (!request.is_module) {
        const auto& script = request.words.front();
        if (auto checked = check_script(script, look_at); !checked) return checked.error();
        if (const auto look = look_at(script); look.is_machine_code)
            return machine_code_command(request, look);
    }
    const auto python = PythonChoice(request, environment, look_at).find();
    if (!python) return python.error();

    // Python finds its environment's packages by the path by which it was started. So argv[0] is
    // that path, and links are not followed.
    WorkerCommand command{python->path, {python->path, "-u"}, python->origin, python->warning};
    if (request.is_module) command.arguments.emplace_back("-m");
    command.arguments.insert(command.arguments.end(), request.words.begin(), request.words.end());
    return command;
}

}  // namespace ddprun::launcher
