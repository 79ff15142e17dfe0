// SPDX-License-Identifier: Apache-2.0
// libcuda.so.1 of a simulated GPU: kernels. A module is a real fatbin, which lists the
// kernels; the kernel that runs is the one of that name in a library of FAKE_GPU_KERNELS.
#include "tests/process/sdk/fake_gpu/memory.hpp"
#include "tests/support/cuda_on_cpu/kernel.hpp"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <string_view>

using namespace fake_gpu;
using cuda_on_cpu::Kernel;

namespace {

constexpr std::uint32_t fatbin_magic = 0xba55ed50;
constexpr int ordinary_shared_bytes = 48 << 10;
constexpr int greatest_shared_bytes = 227 << 10;
constexpr int attribute_shared_bytes = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

struct Function {
    const Kernel* kernel = nullptr;
    int shared_bytes = ordinary_shared_bytes;
};

struct Module {
    std::string_view image;
    std::map<std::string, std::shared_ptr<Function>> functions{};
};

Handles<Module>& modules() {
    static auto* const all = new Handles<Module>;
    return *all;
}

Handles<Function>& functions() {
    static auto* const all = new Handles<Function>;
    return *all;
}

std::string_view image_at(const void* data) {
    struct Header {
        std::uint32_t magic;
        std::uint16_t version;
        std::uint16_t bytes;
        std::uint64_t following;
    } header;
    ::memcpy(&header, data, sizeof header);
    if (header.magic != fatbin_magic) return {};
    return {static_cast<const char*>(data), header.bytes + header.following};
}

/// Whether the image has this kernel: its machine code is in a section with the kernel's name.
bool has_kernel(std::string_view image, const std::string& name) {
    const std::string section = ".text." + name;
    return image.find({section.c_str(), section.size() + 1}) != std::string_view::npos;
}

const Kernel* find_kernel(const char* name) {
    const char* text = ::getenv("FAKE_GPU_KERNELS");
    std::string_view paths = text ? text : "";
    while (!paths.empty()) {
        const auto end = paths.find(':');
        const std::string path{paths.substr(0, end)};
        paths = end == std::string_view::npos ? std::string_view{} : paths.substr(end + 1);
        void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            ::fprintf(stderr, "fake GPU: %s\n", ::dlerror());
            continue;
        }
        const auto find =
            reinterpret_cast<cuda_on_cpu::Find>(::dlsym(library, cuda_on_cpu::find_name));
        if (const auto* const kernel = find ? find(name) : nullptr) return kernel;
    }
    ::fprintf(stderr, "fake GPU: none of FAKE_GPU_KERNELS has the kernel %s\n", name);
    return nullptr;
}

struct Arguments {
    std::vector<std::vector<char>> bytes{};
    std::vector<void*> pointers{};
};

/// The arguments are copied when the kernel is launched.
std::shared_ptr<Arguments> take_arguments(const Kernel& kernel, void** arguments) {
    auto taken = std::make_shared<Arguments>();
    for (std::size_t i = 0; i < kernel.argument_count; ++i) {
        const auto* const first = static_cast<const char*>(arguments[i]);
        taken->bytes.emplace_back(first, first + kernel.argument_bytes[i]);
    }
    for (auto& one : taken->bytes)
        taken->pointers.push_back(one.data());
    return taken;
}

/// The real driver would detect this only later, and then fail all calls.
bool may_have(const Kernel& kernel, const Arguments& arguments) {
    for (std::size_t i = 0; i < kernel.argument_count; ++i) {
        if (!kernel.argument_is_pointer[i]) continue;
        const void* pointer = nullptr;
        ::memcpy(&pointer, arguments.bytes[i].data(), sizeof pointer);
        if (!pointer || is_device_memory(pointer, 0)) continue;
        ::fprintf(stderr, "fake GPU: argument %zu of %s is no device memory\n", i, kernel.name);
        return false;
    }
    return true;
}

bool is_possible(const cuda_on_cpu::Shape& shape, int shared_bytes) {
    const auto& [grid, block, bytes] = shape;
    const auto threads = std::uint64_t{block.x} * block.y * block.z;
    return threads >= 1 && threads <= 1024 && block.z <= 64 && grid.x >= 1 && grid.y >= 1 &&
           grid.z >= 1 && grid.x <= 0x7fffffff && grid.y <= 0xffff && grid.z <= 0xffff &&
           bytes <= static_cast<std::size_t>(shared_bytes);
}

/// Whether this run of the kernel is the one in FAKE_GPU_FAILS_IN.
bool fails_now(const Kernel& kernel) {
    const char* text = ::getenv("FAKE_GPU_FAILS_IN");
    if (!text) return false;
    char name[64] = "";
    int run = 0;
    if (::sscanf(text, "%63[^:]:%d", name, &run) != 2) ::abort();
    static int seen = 0;
    return name == std::string_view{kernel.name} && ++seen == run;
}

}  // namespace

extern "C" int cuModuleLoadData(void** module, const void* data) {
    return in_context([&](Context&) -> int {
        if (const int status = Engine::only().unless_capturing()) return status;
        const auto image = image_at(data);
        if (image.empty()) return invalid_image;
        *module = modules().add(std::make_shared<Module>(Module{image}));
        return success;
    });
}

extern "C" int cuModuleUnload(void* module) {
    return in_context([&](Context&) -> int {
        const auto taken = modules().take(module);
        if (!taken) return invalid_handle;
        for (const auto& [name, function] : taken->functions)
            functions().take(function.get());
        return success;
    });
}

extern "C" int cuModuleGetFunction(void** function, void* module, const char* name) {
    return in_context([&](Context&) -> int {
        auto* const found = modules().find(module);
        if (!found) return invalid_handle;
        auto& known = found->functions[name];
        if (!known) {
            const auto* const kernel = has_kernel(found->image, name) ? find_kernel(name) : nullptr;
            if (!kernel) return not_found;
            known = std::make_shared<Function>(Function{kernel});
            functions().add(known);
        }
        *function = known.get();
        return success;
    });
}

extern "C" int cuFuncSetAttribute(void* function, int attribute, int value) {
    return in_context([&](Context&) -> int {
        auto* const found = functions().find(function);
        if (!found) return invalid_handle;
        if (attribute != attribute_shared_bytes) return success;
        if (value < 0 || value > greatest_shared_bytes) return invalid_value;
        found->shared_bytes = value;
        return success;
    });
}

extern "C" int cuLaunchKernel(
    void* function,
    unsigned grid_x,
    unsigned grid_y,
    unsigned grid_z,
    unsigned block_x,
    unsigned block_y,
    unsigned block_z,
    unsigned shared_bytes,
    void* stream,
    void** arguments,
    void** extra) {
    return in_stream(stream, [&](Context&, Stream& into) -> int {
        const auto* const found = functions().find(function);
        if (!found) return invalid_handle;
        const auto& kernel = *found->kernel;
        const cuda_on_cpu::Shape shape{
            {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
        if (extra || !is_possible(shape, found->shared_bytes)) return invalid_value;
        if (kernel.argument_count > 0 && !arguments) return invalid_value;
        const auto taken = take_arguments(kernel, arguments);
        if (!may_have(kernel, *taken)) return illegal_address;
        return Engine::only().enqueue(into, [taken, shape, &kernel] {
            return [taken, shape, &kernel] {
                if (fails_now(kernel))
                    Engine::only().fail(illegal_address);
                else
                    kernel.run(kernel, shape, taken->pointers.data());
                return true;
            };
        });
    });
}
