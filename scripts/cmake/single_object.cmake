# ddprun_hide_symbols(NAME): the library's names stay inside whatever it is linked into, but those that its headers
# make visible (#pragma GCC visibility).
function(ddprun_hide_symbols name)
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  # g++ marks statics of inline functions as unique in the whole process; such a mark cannot be taken back.
  target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
endfunction()

# ddprun_single_object(NAME LIBRARY ARCHIVE FOREIGN PUBLIC...): the target NAME makes one object, the target's property
# OBJECT, of all of LIBRARY, what that needs of ARCHIVE, and what both need of FOREIGN, which is a file. Only names that match
# PUBLIC are global in it, so that what else it contains (Boost's functions, instances of std's templates, FOREIGN's) neither
# clashes with a program's own nor is replaced by them.
function(ddprun_single_object name library archive foreign)
  if(NOT CMAKE_OBJCOPY)
    message(FATAL_ERROR "ddprun needs objcopy: install the Debian package binutils")
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  set(object ${folder}/${name}.o)
  list(JOIN ARGN "\n" lines)
  file(CONFIGURE OUTPUT ${folder}/public_names CONTENT "${lines}\n" @ONLY)
  # With -flto, too, it is machine code.
  set(partial_link -r -nostdlib -fuse-ld=bfd)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND partial_link -flinker-output=nolto-rel)
  endif()
  # Without groups, of which the linker of the program would take another object's member for ours. Only GNU's own
  # linker can dissolve them.
  add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_CXX_COMPILER} ${partial_link} -Wl,--force-group-allocation -o ${folder}/all.o
              $<TARGET_OBJECTS:${library}> $<TARGET_FILE:${archive}> ${foreign}
      COMMAND ${CMAKE_OBJCOPY} --wildcard --localize-hidden --keep-global-symbols=${folder}/public_names
              ${folder}/all.o ${object}
      DEPENDS ${library} ${archive} ${foreign} $<TARGET_OBJECTS:${library}> ${folder}/public_names
      COMMENT "Making one object of ${library}" COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(${name} DEPENDS ${object})
  set_target_properties(${name} PROPERTIES OBJECT ${object})
endfunction()
