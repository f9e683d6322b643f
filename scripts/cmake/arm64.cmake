# Debian's cross compiler for aarch64, with the libraries of arm64 beside this machine's (scripts/setup.sh --for arm installs
# both). A program that the build runs, to have its manual page, goes by qemu's user mode.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# That one would compile for this machine.
set(CMAKE_CUDA_COMPILER NOTFOUND)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
