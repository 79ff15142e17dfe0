# Part of `cmake --install`: what the shells complete, as the installed programs print it. `emulator` starts
# a program of another processor.
set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
foreach(program ddprun ddprunctl)
  foreach(place "bash share/bash-completion/completions/${program}" "zsh share/zsh/site-functions/_${program}"
      "fish share/fish/vendor_completions.d/${program}.fish")
    string(REGEX MATCH "^([a-z]+) (.*)$" place "${place}")
    set(file "${filled_in}/completions/${CMAKE_MATCH_2}")
    cmake_path(GET file PARENT_PATH folder)
    file(MAKE_DIRECTORY "${folder}")
    execute_process(COMMAND ${emulator} "${root}/${bindir}/${program}" --print-completion ${CMAKE_MATCH_1}
      OUTPUT_FILE "${file}" COMMAND_ERROR_IS_FATAL ANY)
    cmake_path(GET CMAKE_MATCH_2 PARENT_PATH folder)
    file(INSTALL "${file}" DESTINATION "${CMAKE_INSTALL_PREFIX}/${folder}")
  endforeach()
endforeach()
