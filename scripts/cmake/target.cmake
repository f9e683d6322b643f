# The one place where compiler and linker switches are chosen.

add_library(ddprun_options INTERFACE)
target_compile_options(ddprun_options INTERFACE -Wall -Wextra -Wpedantic -Wswitch-enum
                                                -Wno-missing-field-initializers)
# g++ 12 warns, wrongly, of overlapping copies where a literal and a string are added (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(ddprun_options INTERFACE -Wno-restrict)
endif()
# Sources that are compiled as one are no scopes of each other, nor headers.
set(is_joined $<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>)
target_compile_options(ddprun_options INTERFACE $<$<NOT:${is_joined}>:-Wshadow>
                                                $<$<AND:${is_joined},$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wno-subobject-linkage>)
if(DDPRUN_WERROR)
  target_compile_options(ddprun_options INTERFACE -Werror)
endif()
# A product and a sum are two roundings on every machine, or ranks of unlike processors would have unlike sums: g++ makes them one
# where the processor has an instruction for it, as aarch64 has and the x86-64 that is built for has not.
if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  target_compile_options(ddprun_options INTERFACE -ffp-contract=off)
endif()
target_include_directories(ddprun_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
target_include_directories(ddprun_options SYSTEM INTERFACE $<BUILD_INTERFACE:${DDPRUN_BOOST_INCLUDE}>
                                                            $<BUILD_INTERFACE:${DDPRUN_FMT_INCLUDE}>)
# Asio's aligned_alloc makes g++ 12 warn, wrongly, of mismatched allocation functions in coroutines. What Asio does without
# templates is compiled in rendezvous/base/asio.cpp, not again in each source that includes it.
target_compile_definitions(ddprun_options INTERFACE DDPRUN_VERSION="${PROJECT_VERSION}"
                                                    BOOST_ASIO_DISABLE_STD_ALIGNED_ALLOC BOOST_ASIO_SEPARATE_COMPILATION)
target_link_libraries(ddprun_options INTERFACE Threads::Threads)

set(is_test $<BOOL:$<TARGET_PROPERTY:DDPRUN_IS_TEST>>)
# No path of whoever builds is in what is built: the same sources give the same bytes anywhere, also where ccache has made paths
# relative to the folder of the build, and it knows what another clone has compiled.
set(nameless -ffile-prefix-map=../=./ -ffile-prefix-map=${PROJECT_BINARY_DIR}=build -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
if(DDPRUN_SANITIZE)
  target_compile_options(ddprun_options INTERFACE $<BUILD_INTERFACE:${nameless}>)
  # What is undefined in the tests' own sources is no fault of ddprun's, and to look for it takes a third of their build.
  target_compile_options(ddprun_options INTERFACE -fsanitize=${DDPRUN_SANITIZE} $<${is_test}:-fno-sanitize=undefined>
                                                  -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(ddprun_options INTERFACE -fsanitize=${DDPRUN_SANITIZE})
  # g++ warns that ThreadSanitizer does not model fences; Asio has some, and no fence of ours relies on it.
  if(DDPRUN_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(ddprun_options INTERFACE -Wno-tsan)
  endif()
  # Each program's link says where two of its sources have different things by one name: a type that two rooms have, or a
  # function of two joined sources. GNU's own linker takes the first without a word.
  find_program(DDPRUN_GOLD ld.gold)
  if(DDPRUN_GOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_link_options(ddprun_options INTERFACE -fuse-ld=gold LINKER:--detect-odr-violations,--fatal-warnings)
  else()
    message(STATUS "no ld.gold: what is defined twice, differently, goes unseen")
  endif()
else()
  # One file installs a program: only libc stays dynamic (names are resolved by its NSS modules). What nobody calls is left out
  # of it, of libstdc++ too.
  target_compile_options(ddprun_options INTERFACE -ffunction-sections -fdata-sections)
  target_link_options(ddprun_options INTERFACE -static-libstdc++ -static-libgcc -Wl,--gc-sections -Wl,-z,relro,-z,now)
  # What is shipped has Debian's guards.
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-fcf-protection DDPRUN_HAS_CET)
  set(guards -fstack-protector-strong -D_GLIBCXX_ASSERTIONS -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 ${nameless})
  if(DDPRUN_HAS_CET)
    list(APPEND guards -fcf-protection)
  endif()
  target_compile_options(ddprun_options INTERFACE "$<BUILD_INTERFACE:$<$<CONFIG:Release>:${guards}>>")
endif()

# ddprun_library(NAME SOURCES... ): a room's static library, lib<NAME>.a
function(ddprun_library name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PUBLIC ddprun_options)
endfunction()

# Half of a build from nothing is the tests, which are no faster for what an optimizer takes for Catch2's macros.
target_compile_options(ddprun_options INTERFACE $<$<AND:${is_test},$<CONFIG:Release>>:-Og>)

# ddprun_optimize_for_size(NAME): the target NAME, whose loops are short and whose messages are few, is no faster at -O3, only
# larger by a quarter, and takes half as long again to compile.
function(ddprun_optimize_for_size name)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# ddprun_precompile(NAME [HEADER...]): where the sources of the target NAME are joined, the headers that most of them share,
# and HEADER, are read once for all. Not where they are compiled one by one: so each is seen to include what it needs. And not
# with clang, whose tools read the sources without a build.
function(ddprun_precompile name)
  if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_precompile_headers(${name} PRIVATE <algorithm> <array> <chrono> <filesystem> <fmt/core.h> <functional> <map>
        <memory> <optional> <set> <string> <thread> <variant> <vector> <boost/asio/co_spawn.hpp>
        <boost/asio/experimental/awaitable_operators.hpp> <boost/asio/io_context.hpp> <boost/asio/ip/tcp.hpp>
        <boost/asio/posix/stream_descriptor.hpp> <boost/asio/steady_timer.hpp> <boost/asio/write.hpp> ${ARGN})
  endif()
endfunction()

# ddprun_precompile_as(NAME OTHER): with the headers that are read once for OTHER, where there are some.
function(ddprun_precompile_as name other)
  get_target_property(headers ${other} PRECOMPILE_HEADERS)
  if(headers)
    target_precompile_headers(${name} REUSE_FROM ${other})
  endif()
endfunction()

# What the sanitizer of this build looks for. A test has the label of each sanitizer that has something to say about it, and
# so has a program that only such tests need: both without LABELS, none of them with LABELS plain (programs of others, texts,
# measurements; what the unit tests and other tests run through as well). The others are neither built nor run there.
set(DDPRUN_SOUGHT "")
if(DDPRUN_SANITIZE MATCHES "thread")
  set(DDPRUN_SOUGHT threads)
elseif(DDPRUN_SANITIZE)
  set(DDPRUN_SOUGHT memory)
endif()

# ddprun_read_labels(WORDS [PARTS N] [LABELS memory|threads|plain...]): in the caller, `words`, `parts`, `labels`, and whether
# the target `is_sought` in this build.
function(ddprun_read_labels)
  cmake_parse_arguments(arg "" PARTS LABELS ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS memory threads)
  endif()
  foreach(label IN LISTS arg_LABELS)
    if(NOT label MATCHES "^(memory|threads|plain)$")
      message(FATAL_ERROR "there is no label '${label}'")
    endif()
  endforeach()
  set(words ${arg_UNPARSED_ARGUMENTS} PARENT_SCOPE)
  set(parts ${arg_PARTS} PARENT_SCOPE)
  set(labels ${arg_LABELS} PARENT_SCOPE)
  set(is_sought ON PARENT_SCOPE)
  if(DDPRUN_SOUGHT AND NOT DDPRUN_SOUGHT IN_LIST arg_LABELS)
    set(is_sought OFF PARENT_SCOPE)
  endif()
endfunction()

# ddprun_program(NAME SOURCES... [LABELS ...]): a program in bin/
function(ddprun_program name)
  ddprun_read_labels(${ARGN})
  add_executable(${name} ${words})
  target_link_libraries(${name} PRIVATE ddprun_options)
  # A sanitizer's two million addresses are filled in by the linker, not at each of the tests' thousands of starts.
  if(DDPRUN_SANITIZE)
    target_link_options(${name} PRIVATE -no-pie)
  endif()
  if(NOT is_sought)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# What is done alike for every type, or is arithmetic, has nothing new for a sanitizer but in the tests of one function, and takes it
# minutes: one type of each.
set(DDPRUN_TEST_CASES "")
if(DDPRUN_SANITIZE)
  set(DDPRUN_TEST_CASES "~[types],* - float")
endif()
# Of the places that test.sh has for each processor, six or under sanitizers two, what a test of several ranks that compute
# takes: as many as one processor has.
set(DDPRUN_COMPUTING 6)
if(DDPRUN_SANITIZE)
  set(DDPRUN_COMPUTING 2)
endif()
# A hang guard, no measure: the thread sanitizer on a loaded machine is slow.
set(DDPRUN_TEST_TIMEOUT 1800)

# ddprun_add_tests(NAME PARTS COMMAND... ): the test NAME, or where it has PARTS so many tests NAME_1, NAME_2, ... of
# one command, that each get "--part K/N". So none waits long for another's waiting, and none of its cases is left out; and they
# begin before the short ones. The caller gets their names in `added`.
function(ddprun_add_tests name parts)
  set(names ${name})
  if(parts)
    set(names)
    foreach(part RANGE 1 ${parts})
      add_test(NAME ${name}_${part} COMMAND ${ARGN} --part ${part}/${parts})
      list(APPEND names ${name}_${part})
    endforeach()
    set_tests_properties(${names} PROPERTIES COST 60)
  else()
    add_test(NAME ${name} COMMAND ${ARGN})
  endif()
  set_tests_properties(${names} PROPERTIES TIMEOUT ${DDPRUN_TEST_TIMEOUT})
  set(added ${names} PARENT_SCOPE)
endfunction()

# ddprun_test(NAME SOURCES... [PARTS N] [LABELS ...]): a Catch2 program in bin/, run by ctest as one test or as N.
function(ddprun_test name)
  ddprun_read_labels(${ARGN})
  ddprun_program(${name} ${words} LABELS ${labels})
  target_include_directories(${name} SYSTEM PRIVATE ${DDPRUN_CATCH2_INCLUDE})
  target_link_libraries(${name} PRIVATE ddprun_catch_main)
  set_target_properties(${name} PROPERTIES DDPRUN_IS_TEST ON)
  ddprun_precompile_as(${name} ddprun_test_headers)
  if(NOT is_sought)
    return()
  endif()
  ddprun_add_tests(${name} "${parts}" ${name} ${DDPRUN_TEST_CASES})
  set_tests_properties(${added} PROPERTIES LABELS "${labels}")
endfunction()

# ddprun_script_test(NAME SCRIPT ARGS... [PARTS N] [LABELS ...]): a test written in Python or bash; exit code 77 means skipped, and the
# script prints the reason on a line that begins with "skipped:".
function(ddprun_script_test name script)
  ddprun_read_labels(${ARGN})
  if(NOT is_sought)
    return()
  endif()
  get_filename_component(path ${script} ABSOLUTE)
  if(script MATCHES "\\.py$")
    set(interpreter ${DDPRUN_PYTHON} -B)
  else()
    set(interpreter bash)
  endif()
  ddprun_add_tests(${name} "${parts}" ${interpreter} ${path} ${words})
  set_tests_properties(${added} PROPERTIES SKIP_RETURN_CODE 77 LABELS "${labels}")
  # Sanitizers take memory of their own; tests that measure it must know.
  if(DDPRUN_SANITIZE)
    set_property(TEST ${added} APPEND PROPERTY ENVIRONMENT "DDPRUN_SANITIZED=${DDPRUN_SANITIZE}")
  endif()
endfunction()

option(DDPRUN_FUZZ "Build the programs that throw libFuzzer's inputs at what reads bytes and texts from outside (clang only)" OFF)
if(DDPRUN_FUZZ AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "DDPRUN_FUZZ=ON needs clang: configure with -DCMAKE_CXX_COMPILER=clang++")
endif()
# ddprun_fuzz(NAME SOURCE TRIED...): a target of libFuzzer in bin/. What it tries, by paths from the root, is compiled again, so
# that the fuzzer sees its branches.
function(ddprun_fuzz name source)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE tried)
  ddprun_program(${name} ${source} ${tried})
  # clang 14 cannot compile its marks of functions into coroutines ("a difference across sections").
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined -fno-sanitize=function -fno-sanitize-recover=all)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
endfunction()
