# Part of `cmake --install`: a unit names the program where it is installed, which is known only then.
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_PREFIX NORMALIZE OUTPUT_VARIABLE prefix)
cmake_path(ABSOLUTE_PATH bindir BASE_DIRECTORY "${prefix}" NORMALIZE)
foreach(unit ddprun-rendezvous.service ddprun-rendezvous.socket)
  configure_file("${CMAKE_CURRENT_LIST_DIR}/${unit}" "${filled_in}/${unit}" @ONLY)
  # Not the library folder, which may be lib64: systemd looks here.
  file(INSTALL "${filled_in}/${unit}" DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/systemd/system")
endforeach()
