# Finds what ddprun builds with, or what the collectives library alone does (DDPRUN_COLLECTIVES_ONLY). Everything
# comes from Debian packages; a missing one ends the configuration with the name of the package that has it.

function(ddprun_require_header header package out_dir)
  find_path(${out_dir} ${header})
  mark_as_advanced(${out_dir})
  if(NOT ${out_dir})
    message(FATAL_ERROR "ddprun needs <${header}>: install the Debian package ${package} "
                        "(scripts/setup.sh installs everything)")
  endif()
endfunction()

find_package(Threads REQUIRED)

# Each configuration finds Boost by its youngest header. Rendezvous and collectives use headers only, of Asio, Beast, CRC,
# Intrusive, JSON and System; of fmt, too, headers only.
if(DDPRUN_COLLECTIVES_ONLY)
  ddprun_require_header(boost/system/result.hpp libboost1.81-dev DDPRUN_BOOST_INCLUDE)
else()
  ddprun_require_header(boost/process/v2.hpp libboost1.81-dev DDPRUN_BOOST_INCLUDE)
  ddprun_require_header(CLI/CLI.hpp libcli11-dev DDPRUN_CLI11_INCLUDE)
  ddprun_require_header(toml++/toml.h libtomlplusplus-dev DDPRUN_TOML_INCLUDE)
  ddprun_require_header(spdlog/spdlog.h libspdlog-dev DDPRUN_SPDLOG_INCLUDE)
  # Its headers only: a job that talks TLS to etcd opens the system's OpenSSL (rendezvous/etcd/openssl.hpp).
  ddprun_require_header(openssl/ssl.h libssl-dev DDPRUN_OPENSSL_INCLUDE)
endif()
# ddprun_require_archive(FILE PACKAGE OUT): the archive itself, so that one file installs a program.
function(ddprun_require_archive file package out)
  find_library(${out} NAMES ${file})
  mark_as_advanced(${out})
  if(NOT ${out})
    message(FATAL_ERROR "ddprun needs ${file}: install the Debian package ${package} "
                        "(scripts/setup.sh installs everything)")
  endif()
endfunction()

# The collectives library carries what it needs of it (single_object.cmake), so that who links that needs nothing more.
ddprun_require_header(sodium.h libsodium-dev DDPRUN_SODIUM_INCLUDE)
ddprun_require_archive(libsodium.a libsodium-dev DDPRUN_LIBSODIUM)
if(NOT DDPRUN_COLLECTIVES_ONLY)
  # How native stacks are unwound (launcher/look/module_files.cpp).
  ddprun_require_header(elfutils/libdwfl.h libdw-dev DDPRUN_ELFUTILS_INCLUDE)
  ddprun_require_archive(libdw.a libdw-dev DDPRUN_LIBDW)
  ddprun_require_archive(libelf.a libelf-dev DDPRUN_LIBELF)
  ddprun_require_archive(libz.a zlib1g-dev DDPRUN_LIBZ)
endif()
ddprun_require_header(boost/json.hpp libboost1.81-dev DDPRUN_BOOST_JSON_INCLUDE)
ddprun_require_header(fmt/format.h libfmt-dev DDPRUN_FMT_INCLUDE)
if(DDPRUN_BUILD_TESTS)
  ddprun_require_header(catch2/catch.hpp catch2 DDPRUN_CATCH2_INCLUDE)
  # Debian's own Python first: PyTorch's client is installed for that one.
  find_program(DDPRUN_PYTHON python3 HINTS /usr/bin)
  mark_as_advanced(DDPRUN_PYTHON)
  if(NOT DDPRUN_PYTHON)
    message(FATAL_ERROR "ddprun's tests need python3: install the Debian package python3 "
                        "(scripts/setup.sh --for test installs everything), or configure with "
                        "DDPRUN_BUILD_TESTS=OFF")
  endif()
endif()

# The NCCL backend needs no headers: where there are some, a test compares its own declarations with them.
find_path(DDPRUN_NCCL_INCLUDE nccl.h HINTS /usr/local/cuda/include $ENV{CUDA_HOME}/include)
find_path(DDPRUN_CUDA_INCLUDE cuda.h HINTS /usr/local/cuda/include $ENV{CUDA_HOME}/include)
mark_as_advanced(DDPRUN_NCCL_INCLUDE DDPRUN_CUDA_INCLUDE)
