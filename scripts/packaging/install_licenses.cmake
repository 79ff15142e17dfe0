# Part of `cmake --install`: the licences of ddprun and of what it is made of, into share/doc/`package`.
set(text "== Boost\n\n")
file(READ "${CMAKE_CURRENT_LIST_DIR}/BSL-1.0" licence)
string(APPEND text "${licence}")
foreach(part nlohmann-json3-dev libcli11-dev libssl-dev libc6 libstdc++6)
  set(recorded "/usr/share/doc/${part}/copyright")
  # Another distribution keeps them elsewhere: NOTICE names them all.
  if(EXISTS "${recorded}")
    file(READ "${recorded}" licence)
    string(APPEND text "\n== ${part} (as Debian records it)\n\n${licence}")
  endif()
endforeach()
file(WRITE "${filled_in}/THIRD-PARTY-LICENSES" "${text}")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/../../LICENSE" "${CMAKE_CURRENT_LIST_DIR}/NOTICE" "${filled_in}/THIRD-PARTY-LICENSES"
  DESTINATION "${CMAKE_INSTALL_PREFIX}/share/doc/${package}")
