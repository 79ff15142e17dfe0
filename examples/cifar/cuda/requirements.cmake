# Is there what the CUDA part is built with? Sets CIFAR_CUDA, and where cuda.h and cudnn.h are.
find_path(CUDA_DRIVER_INCLUDE_DIR cuda.h HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
find_path(CUDNN_INCLUDE_DIR cudnn.h
  PATHS ${CMAKE_CURRENT_LIST_DIR}/../../../build/cuda-deps/cudnn /usr/local/cuda PATH_SUFFIXES include)
set(CIFAR_CUDA FALSE)
if(DDPRUN_NVCC AND CUDA_DRIVER_INCLUDE_DIR AND CUDNN_INCLUDE_DIR)
  set(CIFAR_CUDA TRUE)
endif()
