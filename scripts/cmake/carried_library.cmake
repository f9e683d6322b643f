if(NOT DDPRUN_COLLECTIVES_ONLY)
  enable_language(ASM)
endif()

# ddprun_carried_library(TARGET NAME LIBRARIES... CALLS...): TARGET carries the libraries (archives; shared ones would be
# needed where it runs) as one shared library in bytes that nobody touches, and has a function for each of CALLS that
# leads into it once it is loaded (rendezvous/etcd/tls_library.cpp does it). So a start pays nothing for what most never
# use: linked in as usual, OpenSSL costs each start a third of a millisecond, for 19000 relocations and the pages that
# they are in, and for questions to the processor.
function(ddprun_carried_library target name)
  cmake_parse_arguments(arg "" "" "LIBRARIES;CALLS" ${ARGN})
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  set(library ${folder}/lib${name}.so)
  set(wanted "")
  set(public "{ global:\n")
  set(DDPRUN_CARRIED_FORWARDS "")
  set(DDPRUN_CARRIED_NAMES "")
  set(slot 0)
  foreach(call IN LISTS arg_CALLS)
    list(APPEND wanted -Wl,-u,${call})
    string(APPEND public "  ${call};\n")
    string(APPEND DDPRUN_CARRIED_FORWARDS "    forward ${call}, ${slot}\n")
    string(APPEND DDPRUN_CARRIED_NAMES "    .asciz \"${call}\"\n")
    math(EXPR slot "${slot} + 1")
  endforeach()
  set(DDPRUN_CARRIED_COUNT ${slot})
  set(DDPRUN_CARRIED_NAME ${name})
  set(DDPRUN_CARRIED_LIBRARY ${library})
  file(CONFIGURE OUTPUT ${folder}/public_names CONTENT "${public}  local: *;\n};\n" @ONLY)
  configure_file(${PROJECT_SOURCE_DIR}/scripts/cmake/carried_library.S.in ${folder}/${name}.S @ONLY)
  add_custom_command(OUTPUT ${library}
      COMMAND ${CMAKE_CXX_COMPILER} -shared -static-libgcc -s -o ${library} ${wanted} -Wl,-z,nodelete -Wl,-Bsymbolic
              -Wl,--gc-sections -Wl,--version-script=${folder}/public_names
              -Wl,--no-as-needed ${arg_LIBRARIES} -Wl,--as-needed
      DEPENDS ${folder}/public_names ${arg_LIBRARIES}
      COMMENT "Making the library ${name}, which is carried" VERBATIM)
  set_source_files_properties(${folder}/${name}.S PROPERTIES OBJECT_DEPENDS ${library})
  target_sources(${target} PRIVATE ${folder}/${name}.S)
  set_property(GLOBAL APPEND PROPERTY DDPRUN_CARRIED_LIBRARIES ${library})
endfunction()
