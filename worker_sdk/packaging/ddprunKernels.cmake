# Embeds CUDA kernels in a C++ target, for programs that call the driver. It needs no CUDA language,
# no runtime library, and nothing that the linker has to find. Part of the package:
# find_package(ddprun).
#
#   if(DDPRUN_NVCC)
#     ddprun_add_kernels(my_program saxpy.cu)
#   endif()
#
# compiles saxpy.cu for the GPUs of DDPRUN_GPUS and puts the result into my_program as
#
#   extern "C" const unsigned char saxpy_fatbin[];   // for cuModuleLoadData
#
# Kernels are `extern "C" __global__` functions and are found by their names. DDPRUN_NVCC is the
# compiler, 12.8 or newer; it is false when no compiler can build the kernels, and then the
# configuration prints one line with the reason. -DDDPRUN_NVCC_PROGRAM=PATH selects the compiler,
# =OFF disables kernels; without it CUDACXX, PATH and /usr/local/cuda/bin are searched. With
# DDPRUN_STRICT_KERNELS the compiler's warnings are errors.

set(DDPRUN_GPUS 80 90 100 CACHE STRING
  "Compute capabilities that kernels are compiled for; later GPUs get the last one's PTX")

function(ddprun_find_nvcc)
  # A given value, OFF too, takes precedence over CUDACXX.
  if(NOT DEFINED DDPRUN_NVCC_PROGRAM OR DDPRUN_NVCC_PROGRAM MATCHES "-NOTFOUND$")
    if("$ENV{CUDACXX}" MATCHES "/" AND EXISTS "$ENV{CUDACXX}" AND NOT IS_DIRECTORY "$ENV{CUDACXX}")
      set(DDPRUN_NVCC_PROGRAM $ENV{CUDACXX} CACHE FILEPATH "CUDA's compiler, for kernels" FORCE)
    else()
      find_program(DDPRUN_NVCC_PROGRAM nvcc HINTS $ENV{CUDACXX} PATHS /usr/local/cuda/bin
        DOC "CUDA's compiler, for kernels")
    endif()
  endif()
  set(code "")
  foreach(gpu ${DDPRUN_GPUS})
    list(APPEND code "-gencode=arch=compute_${gpu},code=sm_${gpu}")
  endforeach()
  list(GET DDPRUN_GPUS -1 newest)
  list(APPEND code "-gencode=arch=compute_${newest},code=compute_${newest}")
  set(DDPRUN_NVCC_CODE ${code} CACHE INTERNAL "nvcc's options for DDPRUN_GPUS")
  set(DDPRUN_NVCC FALSE CACHE INTERNAL "nvcc, when it can compile kernels for DDPRUN_GPUS")
  if(NOT DDPRUN_NVCC_PROGRAM)
    message(STATUS "ddprun: nvcc was not found (CUDACXX, PATH, /usr/local/cuda/bin); what needs CUDA kernels is left out")
    return()
  endif()
  # Tests once whether the compiler supports these GPUs and the host's compiler.
  set(tried "${DDPRUN_NVCC_PROGRAM} ${code}")
  if(NOT DDPRUN_NVCC_TRIED STREQUAL tried)
    set(folder ${CMAKE_BINARY_DIR}/CMakeFiles/ddprun_nvcc)
    file(WRITE ${folder}/try.cu
      "extern \"C\" __global__ void copy(int* to, int* from) {\n"
      "    *to = __nv_atomic_load_n(from, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_SYSTEM);\n}\n")
    execute_process(COMMAND ${DDPRUN_NVCC_PROGRAM} -std=c++20 -fatbin ${code} -o ${folder}/try.fatbin ${folder}/try.cu
      RESULT_VARIABLE failed OUTPUT_VARIABLE words ERROR_VARIABLE words)
    if(failed)
      string(REGEX REPLACE "\n.*" "" words "${words}")
      if(NOT words)
        set(words "${failed}")
      endif()
      list(JOIN DDPRUN_GPUS ", " gpus)
      message(STATUS "ddprun: ${DDPRUN_NVCC_PROGRAM} cannot compile for GPUs ${gpus} (DDPRUN_GPUS; that takes CUDA 12.8): ${words}; what needs CUDA kernels is left out")
      return()
    endif()
    set(DDPRUN_NVCC_TRIED ${tried} CACHE INTERNAL "nvcc and its options that have been tried")
  endif()
  set(DDPRUN_NVCC ${DDPRUN_NVCC_PROGRAM} CACHE INTERNAL "nvcc, when it can compile kernels for DDPRUN_GPUS")
endfunction()

ddprun_find_nvcc()

# ddprun_add_kernels(target file.cu ...): see the top of this file. Headers are searched in the
# target's include directories.
function(ddprun_add_kernels target)
  if(NOT DDPRUN_NVCC)
    message(FATAL_ERROR "ddprun_add_kernels(${target}): there is no nvcc; ask if(DDPRUN_NVCC) first")
  endif()
  set(includes $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  set(strict)
  if(DDPRUN_STRICT_KERNELS)
    set(strict -Werror all-warnings -Xptxas -Werror)
  endif()
  foreach(file ${ARGN})
    get_filename_component(source ${file} ABSOLUTE)
    get_filename_component(name ${file} NAME_WE)
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}_kernels)
    file(MAKE_DIRECTORY ${folder})
    set(fatbin ${folder}/${name}.fatbin)
    add_custom_command(OUTPUT ${fatbin}
      COMMAND ${DDPRUN_NVCC} -std=c++20 -fatbin ${DDPRUN_NVCC_CODE} -lineinfo ${strict}
        "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>" -MD -MF ${fatbin}.d -MT ${fatbin} -o ${fatbin} ${source}
      DEPENDS ${source} DEPFILE ${fatbin}.d VERBATIM COMMAND_EXPAND_LISTS
      COMMENT "Compiling the kernels of ${file}")
    file(CONFIGURE OUTPUT ${folder}/${name}.cpp @ONLY CONTENT [=[
// Generated: @name@.fatbin as bytes of the program.
extern "C" const unsigned char @name@_fatbin[];
asm(".pushsection .rodata\n"
    ".balign 64\n"
    ".globl @name@_fatbin\n"
    ".hidden @name@_fatbin\n"
    ".type @name@_fatbin, STT_OBJECT\n"
    "@name@_fatbin:\n"
    ".incbin \"@fatbin@\"\n"
    ".size @name@_fatbin, .-@name@_fatbin\n"
    ".popsection\n");
]=])
    # Its symbols are defined in assembly, which link-time optimization does not list: a linker would not
    # take the file out of an archive.
    set_source_files_properties(${folder}/${name}.cpp PROPERTIES OBJECT_DEPENDS ${fatbin} COMPILE_OPTIONS -fno-lto
      SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
    target_sources(${target} PRIVATE ${folder}/${name}.cpp)
  endforeach()
endfunction()
