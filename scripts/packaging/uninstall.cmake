# cmake --build DIR --target uninstall: removes what the last `cmake --install DIR` wrote. Folders
# stay: they may hold the files of others.
set(manifest "${BUILD_DIR}/install_manifest.txt")
if(NOT EXISTS "${manifest}")
  message(FATAL_ERROR "${manifest}: not there, so nothing was installed from this build folder")
endif()
file(STRINGS "${manifest}" files)
foreach(file IN LISTS files)
  set(path "$ENV{DESTDIR}${file}")
  if(EXISTS "${path}" OR IS_SYMLINK "${path}")
    message(STATUS "Removing ${path}")
    file(REMOVE "${path}")
  endif()
endforeach()
