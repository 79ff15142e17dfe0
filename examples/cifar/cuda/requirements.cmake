# Checks for the requirements of the CUDA part. Sets CIFAR_CUDA, the folders of cuda.h and cudnn.h,
# and the version of cuDNN. CUDNN_HERE is the folder into which scripts/cuda_deps.sh downloads
# cuDNN.
get_filename_component(CUDNN_HERE ${CMAKE_CURRENT_LIST_DIR}/../../../build/cuda-deps/cudnn ABSOLUTE)
find_path(CUDA_DRIVER_INCLUDE_DIR cuda.h HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
find_path(CUDNN_INCLUDE_DIR cudnn.h
  PATHS ${CUDNN_HERE} /usr/local/cuda PATH_SUFFIXES include)
set(CUDNN_MAJOR 9)
if(CUDNN_INCLUDE_DIR)
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h CUDNN_MAJOR REGEX "define CUDNN_MAJOR")
  string(REGEX REPLACE "[^0-9]" "" CUDNN_MAJOR "${CUDNN_MAJOR}")
endif()
set(CIFAR_CUDA FALSE)
if(DDPRUN_NVCC AND CUDA_DRIVER_INCLUDE_DIR AND CUDNN_INCLUDE_DIR)
  set(CIFAR_CUDA TRUE)
endif()
