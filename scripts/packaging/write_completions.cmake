# cmake -DPROGRAMS=FOLDER -DEMULATOR=PROGRAM -DOUTPUT=FOLDER -P write_completions.cmake
# What the shells complete, as the programs print it: OUTPUT/SHELL/FILE. EMULATOR starts a program of another
# processor; empty: none is needed.
foreach(program ddprun ddprunctl)
  foreach(file "bash/${program}" "zsh/_${program}" "fish/${program}.fish")
    cmake_path(GET file PARENT_PATH shell)
    file(MAKE_DIRECTORY "${OUTPUT}/${shell}")
    execute_process(COMMAND ${EMULATOR} "${PROGRAMS}/${program}" --print-completion ${shell}
      OUTPUT_FILE "${OUTPUT}/${file}" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endforeach()
