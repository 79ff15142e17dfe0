# SPDX-License-Identifier: Apache-2.0
# Writes http_files.cpp with the page's files as string literals: nothing is read at run time.
foreach(kind html css js)
  set(file ${CMAKE_CURRENT_SOURCE_DIR}/page/page.${kind})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} page_${kind})
  file(SHA256 ${file} hash)
  string(SUBSTRING ${hash} 0 16 page_${kind}_hash)
endforeach()
configure_file(page/http_files.cpp.in ${CMAKE_CURRENT_BINARY_DIR}/http_files.cpp @ONLY)
