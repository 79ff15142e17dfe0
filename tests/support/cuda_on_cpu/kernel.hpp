// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

/// Kernels that run on the CPU: the very .cu files, compiled by the host's compiler with
/// cuda_on_cpu.hpp before them. `ddprun_emulate_kernels` finds the names.
namespace cuda_on_cpu {

struct Dimensions {
    unsigned x = 1;
    unsigned y = 1;
    unsigned z = 1;
};

struct Shape {
    Dimensions grid;
    Dimensions block;
    std::size_t shared_bytes = 0;
};

/// A kernel in this process or in a library of kernels.
struct Kernel {
    const char* name;
    const std::size_t* argument_bytes;
    const bool* argument_is_pointer;
    std::size_t argument_count;
    /// Runs all blocks one after the other, and the threads of a block in turns, always in the same
    /// order (CUDA_ON_CPU_ORDER=backward: the opposite order). Ends the process with a line on
    /// stderr when threads would wait for each other for ever. Any thread.
    void (*run)(const Kernel&, const Shape&, void** arguments);
    /// One thread of it.
    void (*run_thread)(void** arguments);
};

/// The function that a library of kernels exports by this name. Null: it has no such kernel.
using Find = const Kernel* (*)(const char* name);
inline constexpr const char* find_name = "cuda_on_cpu_find";

/// Searches the kernels that are linked into this program or library. Null: none has that name.
const Kernel* find(const char* name);

/// `launch("scale", {{8}, {128}}, data, count, 0.5F)`: the arguments must have exactly the
/// kernel's types; false when there is no such kernel, or theirs have other sizes.
template <class... Arguments>
bool launch(const char* name, const Shape& shape, Arguments... arguments) {
    const auto* kernel = find(name);
    const std::array<std::size_t, sizeof...(Arguments) + 1> bytes{sizeof(Arguments)..., 0};
    if (!kernel || kernel->argument_count != sizeof...(Arguments)) return false;
    for (std::size_t i = 0; i < sizeof...(Arguments); ++i)
        if (kernel->argument_bytes[i] != bytes[i]) return false;
    std::array<void*, sizeof...(Arguments) + 1> pointers{&arguments..., nullptr};
    kernel->run(*kernel, shape, pointers.data());
    return true;
}

/// Used by the code that `ddprun_emulate_kernels` generates.
void run(const Kernel& kernel, const Shape& shape, void** arguments);

template <auto function>
struct Described;

template <class... Arguments, void (*function)(Arguments...)>
struct Described<function> {
    static constexpr std::array<std::size_t, sizeof...(Arguments) + 1> bytes{
        sizeof(Arguments)..., 0};
    static constexpr std::array<bool, sizeof...(Arguments) + 1> is_pointer{
        std::is_pointer_v<Arguments>..., false};

    template <std::size_t... I>
    static void call(void** arguments, std::index_sequence<I...>) {
        function(*static_cast<std::remove_cv_t<Arguments>*>(arguments[I])...);
    }
    static void run_thread(void** arguments) {
        call(arguments, std::index_sequence_for<Arguments...>{});
    }
    static constexpr Kernel kernel(const char* name) {
        return {name, bytes.data(), is_pointer.data(), sizeof...(Arguments), &run, &run_thread};
    }
};

struct Registration {
    explicit Registration(const Kernel& kernel);
};

}  // namespace cuda_on_cpu
