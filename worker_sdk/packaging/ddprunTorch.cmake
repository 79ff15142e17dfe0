# find_package(ddprun COMPONENTS torch): the target ddprun::torch, DistributedDataParallel for modules of libtorch. It is
# compiled in the project that links it, since it has to be built for that project's libtorch.
#
# libtorch is found by its files, in CMAKE_PREFIX_PATH: its own package requires a CUDA toolkit when
# libtorch was built with CUDA.
find_library(DDPRUN_TORCH_CPU torch_cpu)
find_library(DDPRUN_TORCH_C10 c10)
find_path(DDPRUN_TORCH_INCLUDE torch/csrc/autograd/engine.h)
if(NOT DDPRUN_TORCH_CPU OR NOT DDPRUN_TORCH_C10 OR NOT DDPRUN_TORCH_INCLUDE)
  set(ddprun_torch_FOUND FALSE)
  set(ddprun_NOT_FOUND_MESSAGE "no libtorch was found in CMAKE_PREFIX_PATH")
  return()
endif()
set(ddprun_torch_FOUND TRUE)
if(TARGET ddprun::torch)
  return()
endif()

add_library(ddprun_torch STATIC ${CMAKE_CURRENT_LIST_DIR}/torch/gradient_averager.cpp)
add_library(ddprun::torch ALIAS ddprun_torch)
target_include_directories(ddprun_torch SYSTEM PUBLIC
  ${DDPRUN_TORCH_INCLUDE} ${DDPRUN_TORCH_INCLUDE}/torch/csrc/api/include)
target_compile_features(ddprun_torch PUBLIC cxx_std_20)
set_target_properties(ddprun_torch PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(ddprun_torch PUBLIC ddprun::worker ${DDPRUN_TORCH_CPU} ${DDPRUN_TORCH_C10})
