# ddprun_emulate_kernels(name file.cu ...): the kernels of these files compiled for the CPU. Makes
#   name          an object library: a target that links it can cuda_on_cpu::launch("kernel", ...)
#   name_library  the same as a library that the fake GPU's driver loads: FAKE_GPU_KERNELS says where
#                 it lies, $<TARGET_FILE:name_library>, several with ':' between them
# Kernels are written as `extern "C" __global__ void name(...)`, dynamic shared memory as
# `extern __shared__ type name[];`.
function(ddprun_emulate_kernels name)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}_emulated)
  set(sources "")
  foreach(file ${ARGN})
    get_filename_component(source ${file} ABSOLUTE)
    get_filename_component(stem ${file} NAME_WE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(READ ${source} text)
    string(REGEX REPLACE "//[^\n]*" "" text "${text}")
    string(REGEX REPLACE "__launch_bounds__[ \n]*\\([^)]*\\)" "" text "${text}")
    string(REGEX MATCHALL "__global__[ \n]+void[ \n]+[A-Za-z0-9_]+" found "${text}")
    set(registrations "")
    foreach(kernel ${found})
      string(REGEX REPLACE ".*[ \n]" "" kernel "${kernel}")
      string(APPEND registrations
        "constexpr auto described_${kernel} = cuda_on_cpu::Described<&${kernel}>::kernel(\"${kernel}\");\n"
        "const cuda_on_cpu::Registration registered_${kernel}{described_${kernel}};\n")
    endforeach()
    # What a kernel may take at most with cuFuncSetAttribute.
    string(REGEX MATCHALL "extern[ \n]+__shared__[^[;]*" found "${text}")
    set(shared "")
    foreach(declaration ${found})
      string(REGEX REPLACE "^extern[ \n]+__shared__[ \n]*(.*[^A-Za-z0-9_])([A-Za-z0-9_]+)[ \n]*$"
        "thread_local \\1\\2[232448 / sizeof(\\1)]" declaration "${declaration}")
      string(REGEX REPLACE "sizeof\\(__align__\\([^)]*\\)" "sizeof(" declaration "${declaration}")
      list(APPEND shared "${declaration}")
    endforeach()
    list(REMOVE_DUPLICATES shared)
    list(JOIN shared ";\n" shared)
    file(CONFIGURE OUTPUT ${folder}/${stem}.cpp @ONLY CONTENT
"// Generated from @source@.
#include \"tests/support/cuda_on_cpu/cuda_on_cpu.hpp\"

#include \"@source@\"

@shared@;

namespace {

@registrations@
}  // namespace
")
    list(APPEND sources ${folder}/${stem}.cpp)
  endforeach()
  add_library(${name} OBJECT ${sources})
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden UNITY_BUILD OFF)
  # Not -Wconversion: device code mixes int and unsigned, as CUDA's own headers do.
  target_compile_options(${name} PRIVATE -O2 -ffp-contract=off -Wall -Wextra -Wno-unknown-pragmas
    $<$<BOOL:${DDPRUN_WERROR}>:-Werror>)
  target_include_directories(${name} BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/cuda_on_cpu)
  target_link_libraries(${name} PUBLIC ddprun_cuda_on_cpu)
  add_library(${name}_library MODULE)
  target_link_libraries(${name}_library PRIVATE ${name})
  target_link_options(${name}_library PRIVATE -Wl,-z,nodelete)
  set_target_properties(${name}_library PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME ${name})
endfunction()
