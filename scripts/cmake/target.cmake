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
target_include_directories(ddprun_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
target_include_directories(ddprun_options SYSTEM INTERFACE $<BUILD_INTERFACE:${DDPRUN_BOOST_INCLUDE}>
                                                            $<BUILD_INTERFACE:${DDPRUN_FMT_INCLUDE}>)
# Asio's aligned_alloc makes g++ 12 warn, wrongly, of mismatched allocation functions in coroutines.
target_compile_definitions(ddprun_options INTERFACE DDPRUN_VERSION="${PROJECT_VERSION}"
                                                    BOOST_ASIO_DISABLE_STD_ALIGNED_ALLOC)
target_link_libraries(ddprun_options INTERFACE Threads::Threads)

set(is_test $<BOOL:$<TARGET_PROPERTY:DDPRUN_IS_TEST>>)
if(DDPRUN_SANITIZE)
  # What is undefined in the tests' own sources is no fault of ddprun's, and to look for it takes a third of their build.
  target_compile_options(ddprun_options INTERFACE -fsanitize=${DDPRUN_SANITIZE} $<${is_test}:-fno-sanitize=undefined>
                                                  -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(ddprun_options INTERFACE -fsanitize=${DDPRUN_SANITIZE})
  # g++ warns that ThreadSanitizer does not model fences; Asio has some, and no fence of ours relies on it.
  if(DDPRUN_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(ddprun_options INTERFACE -Wno-tsan)
  endif()
else()
  # One file installs a program: only libc stays dynamic (names are resolved by its NSS modules).
  target_link_options(ddprun_options INTERFACE -static-libstdc++ -static-libgcc)
endif()

# ddprun_library(NAME SOURCES... ): a room's static library, lib<NAME>.a
function(ddprun_library name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PUBLIC ddprun_options)
endfunction()

# Half of a build from nothing is the tests, which are no faster for what an optimizer takes for Catch2's macros.
target_compile_options(ddprun_options INTERFACE $<$<AND:${is_test},$<CONFIG:Release>>:-Og>)

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

# Tests that a sanitizer has little to say about, and the programs that only they need: neither built nor run there.
set(DDPRUN_LEFT_OUT "")
if(DDPRUN_SANITIZE)
  list(APPEND DDPRUN_LEFT_OUT
      sampler_vs_pytorch sampler_program pytorch_store examples peer_launchers_torchrun peer_launchers_mpirun mpi_launchers  # others' programs
      peer_launchers_srun peer_launchers_ddprun slurm slurm_jobs batch_scripts pods start_ssh start_allocation documentation
      other_processes                                                      # is traced
      gpu_check train_digits_gpu_on_standin                                # nccl_test calls the same
      install_collectives package_names library_alone tidy tidy_self_test  # no program of ours runs, or a plain one
      rendezvous_load takeover_matrix                                      # measures, wants the machine for itself
      fork_test fork_program                                               # a sanitizer's threads do not survive fork()
      # What texts, plans, names, networks and folders are like: the code that runs is that of the unit tests and of the others.
      torchrun_lines placement explain clusters addresses node_addresses late_names port_range ports namespaces odd_networks
      detach_namespaces doctor_nodes texts answers etcd_tls etcd_cut report survivors capture descriptors descriptor_limits
      local_cache start_time folders)
endif()
if(DDPRUN_SANITIZE MATCHES "thread")
  list(APPEND DDPRUN_LEFT_OUT
      train_digits_unit_test ddpbench ddpbench_unit_test device_steps_test distributed_sampler_test  # one thread
      worker_env_test cluster_test doctor_test ddprun_command_line_test ddpctl_unit_test start start_words doctor train_digits
      numbers differences secret strangers surroundings                       # what is refused
      etcd etcd_takeover events newcomer culprits word watchdog times preemption)  # the agent's one thread alone
endif()

# ddprun_program(NAME SOURCES...): a program in bin/
function(ddprun_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE ddprun_options)
  # A sanitizer's two million addresses are filled in by the linker, not at each of the tests' thousands of starts.
  if(DDPRUN_SANITIZE)
    target_link_options(${name} PRIVATE -no-pie)
  endif()
  if(name IN_LIST DDPRUN_LEFT_OUT)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# What is done alike for every type has nothing new for the thread sanitizer, and takes it minutes: one type of each.
set(DDPRUN_TEST_CASES "")
if(DDPRUN_SANITIZE MATCHES "thread")
  set(DDPRUN_TEST_CASES "~[types],* - float")
endif()
# A hang guard, no measure: the thread sanitizer on a loaded machine is slow.
set(DDPRUN_TEST_TIMEOUT 1800)

# ddprun_test(NAME SOURCES...): a Catch2 program in bin/, run by ctest as one test.
function(ddprun_test name)
  ddprun_program(${name} ${ARGN})
  target_include_directories(${name} SYSTEM PRIVATE ${DDPRUN_CATCH2_INCLUDE})
  target_link_libraries(${name} PRIVATE ddprun_catch_main)
  set_target_properties(${name} PROPERTIES DDPRUN_IS_TEST ON)
  get_target_property(headers ddprun_test_headers PRECOMPILE_HEADERS)
  if(headers)
    target_precompile_headers(${name} REUSE_FROM ddprun_test_headers)
  endif()
  if(name IN_LIST DDPRUN_LEFT_OUT)
    return()
  endif()
  add_test(NAME ${name} COMMAND ${name} ${DDPRUN_TEST_CASES})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${DDPRUN_TEST_TIMEOUT})
endfunction()

# ddprun_script_test(NAME SCRIPT ARGS...): a test written in Python or bash; exit code 77 means skipped, and the
# script prints the reason on a line that begins with "skipped:".
function(ddprun_script_test name script)
  if(name IN_LIST DDPRUN_LEFT_OUT)
    return()
  endif()
  get_filename_component(path ${script} ABSOLUTE)
  if(script MATCHES "\\.py$")
    set(interpreter ${DDPRUN_PYTHON} -B)
  else()
    set(interpreter bash)
  endif()
  add_test(NAME ${name} COMMAND ${interpreter} ${path} ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${DDPRUN_TEST_TIMEOUT} SKIP_RETURN_CODE 77)
  # Sanitizers take memory of their own; tests that measure it must know.
  if(DDPRUN_SANITIZE)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "DDPRUN_SANITIZED=${DDPRUN_SANITIZE}")
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
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
endfunction()
