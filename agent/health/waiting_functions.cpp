// SPDX-License-Identifier: Apache-2.0
#include "agent/health/waiting_functions.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace ddprun::agent::health {
namespace {

enum class Wait : std::uint8_t { none, for_peers, for_store };
enum class Counts : std::uint8_t { always, if_idle };

struct WaitRow {
    /// The end of a file's path, or, ending with a slash, a folder.
    std::string_view place;
    /// The last part of its name; empty: any function.
    std::string_view function;
    Wait wait;
    Counts counts = Counts::always;
    std::string_view shown_as = {};
};

/// The first matching row counts. Names as in PyTorch 2.13 to 2.15.
constexpr WaitRow wait_rows[] = {
    // Converts Python objects to bytes on this rank alone.
    {"/torch/distributed/distributed_c10d.py", "_object_to_tensor", Wait::none},
    {"/torch/distributed/distributed_c10d.py", "_tensor_to_object", Wait::none},
    {"/torch/distributed/distributed_c10d.py", "_store_based_barrier", Wait::for_store},
    {"/torch/distributed/distributed_c10d.py", "", Wait::for_peers},
    {"/torch/distributed/rendezvous.py", "", Wait::for_store, Counts::if_idle},
    {"/torch/distributed/elastic/utils/store.py", "", Wait::for_store, Counts::if_idle},
    {"/torch/distributed/_functional_collectives.py", "", Wait::for_peers},
    {"/torch/distributed/nn/functional.py", "", Wait::for_peers},
    {"/torch/distributed/utils.py", "", Wait::for_peers, Counts::if_idle},
    {"/torch/distributed/algorithms/", "", Wait::for_peers, Counts::if_idle},
    {"/torch/distributed/fsdp/", "", Wait::for_peers, Counts::if_idle},
    {"/torch/distributed/_composable/", "", Wait::for_peers, Counts::if_idle},
    {"/torch/distributed/tensor/", "", Wait::for_peers, Counts::if_idle},
    {"/torch/distributed/_tensor/", "", Wait::for_peers, Counts::if_idle},
    {"/torch/distributed/pipelining/", "", Wait::for_peers, Counts::if_idle},
    {"/torch/distributed/optim/", "", Wait::for_peers, Counts::if_idle},
    {"/torch/nn/parallel/distributed.py", "", Wait::for_peers},
    // With Gloo, backward waits at its end for the all_reduce of the gradients, in C++.
    {"/torch/autograd/graph.py",
     "_engine_run_backward",
     Wait::for_peers,
     Counts::if_idle,
     "backward"},
    // A GPU executes collectives like all other work, so this may wait for peers even while the
    // processor spins.
    {"/torch/cuda/__init__.py", "synchronize", Wait::for_peers, Counts::always, "cuda.synchronize"},
    {"/torch/cuda/streams.py", "synchronize", Wait::for_peers},
    {"/torch/accelerator/__init__.py", "synchronize", Wait::for_peers},
    // Waits until all ranks have agreed on a step to save.
    {"/ddprun/__init__.py", "_answer", Wait::for_peers, Counts::always, "should_save"},
    // Waits for new processes, which get the state of the others.
    {"/ddprun/_elastic.py", "_meet", Wait::for_peers, Counts::always, "elastic"},
};

/// Wrappers between a function and its real caller.
constexpr std::string_view wrappers[] = {
    "/torch/_ops.py",
    "/torch/distributed/c10d_logger.py",
    "/torch/utils/_contextlib.py",
};

struct DebuggerRow {
    std::string_view file;
    std::string_view function;
};

constexpr DebuggerRow debugger_rows[] = {
    {"/pdb.py", "interaction"},
    {"/pdb.py", "_interact"},
    {"/pydevd.py", "_do_wait_suspend"},
    {"/pydevd.py", "do_wait_suspend"},
};

constexpr DebuggerRow join_rows[] = {
    {"/threading.py", "join"},
    {"/threading.py", "_wait_for_tstate_lock"},
};

std::string_view last_part(std::string_view name) {
    return name.substr(name.rfind('.') + 1);
}

bool is_in(std::string_view file, std::string_view place) {
    return place.ends_with('/') ? file.find(place) != std::string_view::npos
                                : file.ends_with(place);
}

bool is_any_of(const PythonFrame& frame, const auto& rows) {
    return std::any_of(std::begin(rows), std::end(rows), [&](const DebuggerRow& row) {
        return is_in(frame.file, row.file) && last_part(frame.function) == row.function;
    });
}

bool is_wrapper(const PythonFrame& frame) {
    return std::any_of(std::begin(wrappers), std::end(wrappers), [&](std::string_view file) {
        return is_in(frame.file, file);
    });
}

const WaitRow* row_of(const PythonFrame& frame) {
    const auto* const end = std::end(wait_rows);
    const auto* const row = std::find_if(std::begin(wait_rows), end, [&](const WaitRow& each) {
        return is_in(frame.file, each.place) &&
               (each.function.empty() || each.function == last_part(frame.function));
    });
    return row == end ? nullptr : row;
}

bool is_installed(std::string_view file) {
    // The last one is where this project's own module is installed without a Python.
    constexpr std::string_view places[] = {
        "/site-packages/", "/dist-packages/", "/share/ddprun/python/"};
    return std::any_of(std::begin(places), std::end(places), [&](std::string_view place) {
        return file.find(place) != std::string_view::npos;
    });
}

bool is_torch(std::string_view file) {
    return file.find("-packages/torch/") != std::string_view::npos;
}

/// A file such as ".../lib/python3.11/threading.py", or a module frozen into the interpreter.
bool is_standard(std::string_view file) {
    return (file.find("/python3.") != std::string_view::npos && !is_installed(file)) ||
           file.starts_with("<frozen ");
}

}  // namespace

std::optional<KnownWait> known_wait(const Stack& stack) {
    const auto frame = std::find_if_not(stack.begin(), stack.end(), is_wrapper);
    if (frame == stack.end()) return std::nullopt;
    const auto* const row = row_of(*frame);
    if (row == nullptr || row->wait == Wait::none) return std::nullopt;
    return KnownWait{
        row->wait == Wait::for_store ? WaitsFor::store : WaitsFor::peers,
        row->counts == Counts::if_idle,
        row->shown_as.empty() ? frame->function : std::string{row->shown_as}};
}

bool may_wait_for_work(const PythonThread& thread, const Sample& sample) {
    // The kernel's facts are about the main thread.
    return thread.tid == sample.pid && thread.calls_wait && !thread.frames.empty() &&
           !is_standard(thread.frames.front().file) && sample.system_call == "futex(2)";
}

bool is_at_debugger(const Stack& stack) {
    return std::any_of(stack.begin(), stack.end(), [](const PythonFrame& frame) {
        return is_any_of(frame, debugger_rows);
    });
}

bool waits_for_thread(const Stack& stack) {
    return !stack.empty() && is_any_of(stack.front(), join_rows);
}

const PythonFrame* user_frame(const Stack& stack) {
    const auto find = [&](auto is_foreign) {
        const auto frame =
            std::find_if_not(stack.begin(), stack.end(), [&](const PythonFrame& each) {
                return is_foreign(each.file);
            });
        return frame == stack.end() ? nullptr : &*frame;
    };
    const auto* const own =
        find([](const std::string& file) { return is_installed(file) || is_standard(file); });
    if (own != nullptr) return own;
    return find([](const std::string& file) { return is_torch(file) || is_standard(file); });
}

}  // namespace ddprun::agent::health
