# cmake -DSOURCE=DIR -DGIT=PROGRAM -DVERSION=... -DCOMPILER=... -DLINKAGE=... -DTEMPLATE=... -DOUTPUT=... -P version.cmake
# Runs with every build and writes OUTPUT only if it changes: a commit compiles one file.
set(COMMIT "")
if(GIT AND EXISTS "${SOURCE}/.git")
  execute_process(COMMAND "${GIT}" -C "${SOURCE}" describe --always --exclude=* --abbrev=12 --dirty
                  OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
configure_file("${TEMPLATE}" "${OUTPUT}" @ONLY)
