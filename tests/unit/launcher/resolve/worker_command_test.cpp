// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/worker_command.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <map>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

constexpr PathLook program{true, false, true, true};
constexpr PathLook compiled{true, false, true, true, true};
constexpr PathLook text_file{true, false, true, false};
constexpr PathLook secret_file{true, false, false, false};
constexpr PathLook folder{true, true, true, true};

/// A simulated machine: its files, and the variables of the user's shell.
struct Machine {
    std::map<std::string, PathLook> files;
    Environment environment{{"PATH", "/usr/bin:/bin"}};
    CommandRequest request{{"train.py"}, false, false, "", "/opt/ddprun/bin/ddprun", ""};

    Result<WorkerCommand> find() const {
        return find_worker_command(request, environment, [this](const std::string& path) {
            const auto found = files.find(path);
            return found == files.end() ? PathLook{} : found->second;
        });
    }
    std::string python() const {
        const auto command = find();
        return command ? command->program + " (" + command->python_origin + ")" : "none";
    }
    std::string warning() const { return find()->python_warning; }
    std::string refusal() const {
        const auto command = find();
        return command ? "accepted" : command.error().context;
    }
    int number() const { return find().error().code.value(); }
};

/// All places in which a Python may be found.
Machine rich_machine() {
    Machine machine;
    machine.files = {
        {"train.py", text_file},
        {"/my/python", program},
        {"/named/python", program},
        {"/opt/ddprun/bin/../pyvenv.cfg", text_file},
        {"/opt/ddprun/bin/python", program},
        {"/venv/bin/python", program},
        {"/conda/bin/python", program},
        {"/usr/bin/python3", program},
        {"/bin/python", program},
    };
    machine.environment["PYTHON_EXEC"] = "/named/python";
    machine.environment["VIRTUAL_ENV"] = "/venv";
    machine.environment["CONDA_PREFIX"] = "/conda";
    machine.request.python = "/my/python";
    return machine;
}

}  // namespace

TEST_CASE("the nearest Python is taken, and the choice says why") {
    auto machine = rich_machine();
    CHECK(machine.python() == "/my/python (--python)");
    machine.request.python.clear();
    CHECK(machine.python() == "/named/python (PYTHON_EXEC)");
    machine.environment.erase("PYTHON_EXEC");
    CHECK(machine.python() == "/opt/ddprun/bin/python (beside ddprun, in its environment)");
    machine.files.erase("/opt/ddprun/bin/../pyvenv.cfg");
    CHECK(machine.python() == "/venv/bin/python ($VIRTUAL_ENV)");
    machine.environment.erase("VIRTUAL_ENV");
    CHECK(machine.python() == "/conda/bin/python ($CONDA_PREFIX)");
    machine.environment.erase("CONDA_PREFIX");
    CHECK(machine.python() == "/opt/ddprun/bin/python (beside ddprun)");
    machine.files.erase("/opt/ddprun/bin/python");
    CHECK(machine.python() == "/usr/bin/python3 (python3 on PATH)");
    machine.files.erase("/usr/bin/python3");
    CHECK(machine.python() == "/bin/python (python on PATH)");
    machine.files.erase("/bin/python");
    CHECK(
        machine.refusal() ==
        "no Python interpreter found in an environment or on PATH\n"
        "give one with --python, or run a program with --no-python");
    CHECK(machine.number() == ENOENT);
}

TEST_CASE("a conda environment around ddprun counts as one too") {
    auto machine = rich_machine();
    machine.request.python.clear();
    machine.environment.erase("PYTHON_EXEC");
    machine.files.erase("/opt/ddprun/bin/../pyvenv.cfg");
    machine.files["/opt/ddprun/bin/../conda-meta"] = folder;

    CHECK(machine.python() == "/opt/ddprun/bin/python (beside ddprun, in its environment)");
}

TEST_CASE("behind a link ddprun finds the environment that it was installed into") {
    Machine machine;
    machine.request.own_path = "/home/bin/ddprun";
    machine.request.own_target = "/tools/ddprun/bin/ddprun";
    machine.files = {
        {"train.py", text_file},
        {"/tools/ddprun/bin/../pyvenv.cfg", text_file},
        {"/tools/ddprun/bin/python", program},
        {"/venv/bin/python", program},
        {"/venv/bin/python3", program},
        {"/usr/bin/python3", program},
    };
    CHECK(machine.python() == "/tools/ddprun/bin/python (beside the target of /home/bin/ddprun)");

    machine.environment = {{"PATH", "/venv/bin:/usr/bin"}, {"VIRTUAL_ENV", "/venv"}};
    CHECK(machine.python() == "/venv/bin/python ($VIRTUAL_ENV)");
    CHECK(machine.warning().empty());

    machine.files["/home/bin/../pyvenv.cfg"] = text_file;
    machine.files["/home/bin/python"] = program;
    CHECK(machine.python() == "/home/bin/python (beside ddprun, in its environment)");
}

TEST_CASE("a plain prefix has its own Python, the system's folders have PATH's") {
    Machine machine;
    machine.files = {
        {"train.py", text_file},
        {"/opt/ddprun/bin/python3", program},
        {"/usr/bin/python3", program},
        {"/first/bin/python3", program},
    };
    machine.environment = {{"PATH", "/first/bin:/usr/bin"}};
    CHECK(machine.python() == "/opt/ddprun/bin/python3 (beside ddprun)");
    machine.files["/first/bin/../pyvenv.cfg"] = text_file;
    CHECK(machine.python() == "/first/bin/python3 (python3 on PATH)");
    machine.files.erase("/first/bin/../pyvenv.cfg");
    machine.request.own_path = "/home/bin/ddprun";
    machine.request.own_target = "/opt/ddprun/bin/ddprun";
    CHECK(machine.python() == "/opt/ddprun/bin/python3 (beside the target of /home/bin/ddprun)");
    machine.request.own_path = machine.request.own_target = "/usr/bin/ddprun";
    CHECK(machine.python() == "/first/bin/python3 (python3 on PATH)");
}

TEST_CASE("a variable that PATH contradicts is named, and the environment on PATH is taken") {
    Machine machine;
    machine.files = {
        {"train.py", text_file},
        {"/old/bin/python", program},
        {"/conda/envs/new/bin/python", program},
        {"/conda/envs/new/bin/../conda-meta", folder},
        {"/usr/bin/python3", program},
    };
    machine.environment = {{"PATH", "/conda/envs/new/bin:/bin"}, {"VIRTUAL_ENV", "/old"}};
    const std::string warning =
        "VIRTUAL_ENV means /old/bin/python, but python on PATH is /conda/envs/new/bin/python: the "
        "workers run with /conda/envs/new/bin/python; --python chooses another one";
    CHECK(machine.python() == "/conda/envs/new/bin/python (python on PATH)");
    CHECK(machine.warning() == warning);

    machine.environment["CONDA_PREFIX"] = "/conda/envs/new/";
    CHECK(machine.python() == "/conda/envs/new/bin/python ($CONDA_PREFIX)");
    CHECK(machine.warning() == warning);

    // An environment beside no environment: sudo and batch systems reset PATH.
    machine.environment = {{"PATH", "/usr/bin"}, {"VIRTUAL_ENV", "/old"}};
    CHECK(machine.python() == "/old/bin/python ($VIRTUAL_ENV)");
    CHECK(
        machine.warning() ==
        "VIRTUAL_ENV means /old/bin/python, but python3 on PATH is /usr/bin/python3: the workers "
        "run with /old/bin/python; --python chooses another one");

    machine.files["/home/.pyenv/shims/python3"] = program;
    machine.environment["PATH"] = "/home/.pyenv/shims:/usr/bin";
    CHECK(machine.python() == "/old/bin/python ($VIRTUAL_ENV)");
    CHECK(machine.warning().empty());

    machine.environment["PATH"] = "/usr/bin";
    machine.environment["VIRTUAL_ENV"] = "/gone";
    CHECK(machine.python() == "/usr/bin/python3 (python3 on PATH)");
    CHECK(
        machine.warning() ==
        "VIRTUAL_ENV names an environment without a Python, /gone: the workers run with "
        "/usr/bin/python3; --python chooses another one");
    machine.files["/gone/bin/python3"] = program;
    CHECK(machine.python() == "/gone/bin/python3 ($VIRTUAL_ENV)");
    machine.files.erase("/gone/bin/python3");

    // The base of conda is active in most shells.
    machine.files["/conda/bin/python"] = program;
    machine.files["/conda/bin/../condabin"] = folder;
    machine.environment["CONDA_PREFIX"] = "/conda";
    CHECK(machine.warning().starts_with("VIRTUAL_ENV names an environment without a Python"));
    machine.environment.erase("CONDA_PREFIX");
    machine.environment["VIRTUAL_ENV"] = "";
    CHECK(machine.warning().empty());

    // It plays no part where ddprun lies in an environment.
    machine.environment["VIRTUAL_ENV"] = "/gone";
    machine.files["/opt/ddprun/bin/../pyvenv.cfg"] = text_file;
    machine.files["/opt/ddprun/bin/python"] = program;
    CHECK(machine.warning().empty());

    machine.files = {{"train.py", text_file}};
    CHECK(
        machine.refusal() ==
        "no Python interpreter found in an environment or on PATH; VIRTUAL_ENV names an "
        "environment without a Python, /gone\n"
        "give one with --python, or run a program with --no-python");
}

TEST_CASE("one environment by two paths agrees with itself") {
    Machine machine;
    PathLook bin = folder;
    bin.id = {1, 7};
    machine.files = {
        {"train.py", text_file},
        {"/home/venv/bin", bin},
        {"/mnt/home/venv/bin", bin},
        {"/home/venv/bin/python", program},
        {"/mnt/home/venv/bin/python", program},
    };
    machine.environment = {{"PATH", "/home/venv/bin"}, {"VIRTUAL_ENV", "/mnt/home/venv"}};

    CHECK(machine.python() == "/mnt/home/venv/bin/python ($VIRTUAL_ENV)");
    CHECK(machine.warning().empty());
}

TEST_CASE("conda's base gives way to an environment that was asked for") {
    Machine machine;
    machine.request.own_path = machine.request.own_target = "/conda/bin/ddprun";
    machine.files = {
        {"train.py", text_file},
        {"/conda/bin/../conda-meta", folder},
        {"/conda/bin/../condabin", folder},
        {"/conda/bin/python", program},
        {"/venv/bin/python", program},
        {"/tools/bin/../pyvenv.cfg", text_file},
        {"/tools/bin/python", program},
    };
    machine.environment = {{"PATH", "/conda/bin:/bin"}, {"CONDA_PREFIX", "/conda"}};
    CHECK(machine.python() == "/conda/bin/python (beside ddprun, in its environment)");

    machine.environment["PATH"] = "/venv/bin:/conda/bin";
    machine.environment["VIRTUAL_ENV"] = "/venv";
    CHECK(machine.python() == "/venv/bin/python ($VIRTUAL_ENV)");
    CHECK(machine.warning().empty());

    // A link to an environment's ddprun, in a shell where base is active.
    machine.environment = {{"PATH", "/conda/bin:/bin"}, {"CONDA_PREFIX", "/conda"}};
    machine.request.own_path = "/home/bin/ddprun";
    machine.request.own_target = "/tools/bin/ddprun";
    CHECK(machine.python() == "/tools/bin/python (beside the target of /home/bin/ddprun)");
}

TEST_CASE("an environment whose Python is gone is passed over") {
    auto machine = rich_machine();
    machine.request.python.clear();
    machine.environment.erase("PYTHON_EXEC");
    machine.files["/opt/ddprun/bin/python"] = text_file;
    machine.files.erase("/venv/bin/python");

    CHECK(machine.python() == "/conda/bin/python ($CONDA_PREFIX)");
}

TEST_CASE("a Python given by name is that one or an error") {
    auto machine = rich_machine();
    machine.request.python = "/gone/python";
    CHECK(
        machine.refusal() ==
        "--python: /gone/python: not found\ngive the path of a Python interpreter");
    CHECK(machine.number() == ENOENT);
    machine.request.python = "train.py";
    CHECK(machine.number() == ENOENT);
    machine.request.python = "./train.py";
    machine.files["./train.py"] = text_file;
    CHECK(machine.number() == EACCES);
    machine.request.python = "python3";
    CHECK(machine.python() == "/usr/bin/python3 (--python)");
}

TEST_CASE("a script runs unbuffered with its arguments as they are") {
    auto machine = rich_machine();
    machine.request.words = {"train.py", "--lr", "0.1", ""};

    const auto command = machine.find();

    CHECK(
        command->arguments ==
        std::vector<std::string>{"/my/python", "-u", "train.py", "--lr", "0.1", ""});
}

TEST_CASE("a module is not looked for") {
    auto machine = rich_machine();
    machine.request.words = {"pkg.train", "x"};
    machine.request.is_module = true;

    CHECK(
        machine.find()->arguments ==
        std::vector<std::string>{"/my/python", "-u", "-m", "pkg.train", "x"});
}

TEST_CASE("a script that python could not run is found before anything is started") {
    auto machine = rich_machine();
    machine.request.words = {"gone.py"};
    CHECK(machine.number() == ENOENT);
    CHECK(machine.refusal().starts_with("gone.py: script not found\n"));
    machine.request.words = {"ps"};
    CHECK(machine.refusal() == "ps: script not found\ndid you mean ddprunctl ps?");
    machine.request.words = {"gone.py"};

    machine.files["gone.py"] = secret_file;
    CHECK(machine.number() == EACCES);

    machine.files["gone.py"] = folder;
    CHECK(machine.number() == EISDIR);
    machine.files["gone.py/__main__.py"] = text_file;
    CHECK(machine.find().has_value());

    machine.request.words = {"-"};
    CHECK(machine.find().has_value());
}

TEST_CASE("a program is found as a shell would, and run as it was typed") {
    Machine machine;
    machine.request.is_program = true;
    machine.request.words = {"hostname", "-f"};
    machine.files["/usr/bin/hostname"] = text_file;
    machine.files["/bin/hostname"] = program;
    CHECK(*machine.find() == WorkerCommand{"/bin/hostname", {"hostname", "-f"}, "", ""});

    machine.request.words = {"./a.out"};
    machine.files["./a.out"] = program;
    CHECK(*machine.find() == WorkerCommand{"./a.out", {"./a.out"}, "", ""});
}

TEST_CASE("a compiled program needs no word that it is one") {
    auto machine = rich_machine();
    machine.request.words = {"bin/train", "--lr", "0.1"};
    machine.files["bin/train"] = compiled;
    CHECK(*machine.find() == WorkerCommand{"bin/train", {"bin/train", "--lr", "0.1"}, "", ""});

    machine.request.words = {"train"};
    machine.files["train"] = compiled;
    CHECK(*machine.find() == WorkerCommand{"./train", {"train"}, "", ""});

    machine.files["train"].is_executable = false;
    CHECK(machine.refusal() == "train: is a compiled program that cannot be executed\nchmod +x it");
    CHECK(machine.number() == EACCES);
}

TEST_CASE("a program that is missing, a folder or not executable is named with what to do") {
    Machine machine;
    machine.request.is_program = true;
    machine.request.words = {"nosuch"};
    CHECK(
        machine.refusal() ==
        "nosuch: program not found on PATH\n"
        "give its path, with a slash if it lies in this folder");
    CHECK(machine.number() == ENOENT);

    machine.files["/bin/nosuch"] = text_file;
    CHECK(machine.number() == EACCES);

    machine.request.words = {"./sub"};
    CHECK(machine.number() == ENOENT);
    machine.files["./sub"] = folder;
    CHECK(machine.number() == EISDIR);
}

TEST_CASE("an empty entry of PATH is the current folder") {
    Machine machine;
    machine.request.is_program = true;
    machine.request.words = {"tool"};
    machine.environment["PATH"] = "/bin:";
    machine.files["./tool"] = program;

    CHECK(machine.find()->program == "./tool");
}
