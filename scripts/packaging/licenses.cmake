# The licences of ddprun and of what it is made of, with the programs and with the SDK.
set(third_party ${CMAKE_CURRENT_BINARY_DIR}/THIRD-PARTY-LICENSES)
file(READ ${packaging}/BSL-1.0 licence)
set(licences "== Boost\n\n${licence}")
foreach(part nlohmann-json3-dev libcli11-dev libssl-dev libc6 libstdc++6)
  set(recorded /usr/share/doc/${part}/copyright)
  # Another distribution keeps them elsewhere: NOTICE names them all.
  if(EXISTS ${recorded})
    file(READ ${recorded} licence)
    string(APPEND licences "\n== ${part} (as Debian records it)\n\n${licence}")
  endif()
endforeach()
file(WRITE ${third_party} "${licences}")
foreach(component programs sdk)
  set(package_of_programs ddprun)
  set(package_of_sdk libddprun-dev)
  install(FILES LICENSE ${packaging}/NOTICE ${third_party} COMPONENT ${component}
    DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package_of_${component}})
endforeach()
